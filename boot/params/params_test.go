package params

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"reveille/netcfg"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func TestProblems(t *testing.T) {
	golden := filepath.Join("testdata", "problems.txtar")
	ar, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(ar.Files); i += 2 {
		doc, want := ar.Files[i], &ar.Files[i+1]
		p, err := Parse(doc.Name, doc.Data)
		got := ""
		if err != nil {
			got = err.Error() + "\n"
		}
		if (p == nil) != (err != nil) {
			t.Errorf("%s: params %v, error %v", doc.Name, p, err)
		}
		if *update {
			want.Data = []byte(got)
		}
		if diff := cmp.Diff(string(want.Data), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(golden, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// file returns a document of the goldens.
func file(t testing.TB, name string) []byte {
	t.Helper()
	ar, err := txtar.ParseFile(filepath.Join("testdata", "problems.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("no %s in the goldens", name)
	return nil
}

func TestParse(t *testing.T) {
	p, err := Parse("full.yaml", file(t, "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "n1" || len(p.Endpoints) != 4 || p.TPM != TPMRequired || p.Ticket.Set() || p.Network == nil ||
		p.CA.String() != "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" ||
		p.API.Listen != "[::]:7444" || len(p.API.Advertise) != 1 {
		t.Errorf("got %+v", p)
	}
	sysctls := []netcfg.Sysctl{
		{Key: "net.ipv4.tcp_rmem", Value: "4096 131072 33554432"}, {Key: "net.core.default_qdisc", Value: "fq"},
		{Key: "net/ipv4/conf/bond0.100/rp_filter", Value: "2"}, {Key: "net.ipv6.conf.all.forwarding", Value: "1"},
	}
	if diff := cmp.Diff(sysctls, p.Sysctls); diff != "" {
		t.Errorf("sysctls (-want +got):\n%s", diff)
	}
	p, err = Parse("least.yaml", file(t, "least.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if p.API.Listen != DefaultListen || p.TPM != TPMPreferred || p.Ticket.Reveal() != "rt-Zm9vYmFy" {
		t.Errorf("got %+v", p)
	}
}

func TestTicketRefusesToBePrinted(t *testing.T) {
	p, err := Parse("least.yaml", file(t, "least.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("parameters", "ticket", p.Ticket, "all", p)
	asJSON, jsonErr := json.Marshal(p.Ticket)
	asYAML, yamlErr := yaml.Marshal(p.Ticket)
	if jsonErr == nil || yamlErr == nil {
		t.Errorf("encoded a ticket as %q, %q", asJSON, asYAML)
	}
	text := fmt.Sprintf("%v %+v %#v %s %q %x %s%s%s", p.Ticket, p, *p, p.Ticket, p.Ticket, p.Ticket, &log, asJSON, asYAML)
	if strings.Contains(text, "Zm9v") || strings.Contains(text, "72742d") {
		t.Errorf("ticket in %s", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"least.yaml", "full.yaml", "values.yaml", "nothing.yaml"} {
		f.Add(file(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("node.yaml", text)
		var problems netcfg.Problems
		if err != nil && (!errors.As(err, &problems) || len(problems) == 0) {
			t.Fatalf("error without a problem: %v", err)
		}
		if (p == nil) == (err == nil) {
			t.Fatalf("params %v, error %v", p, err)
		}
		if p != nil && (len(p.Endpoints) == 0 || p.Network == nil || p.Name == "" || p.TPM == "") {
			t.Fatalf("invalid params %+v", p)
		}
	})
}

package service

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"reveille/netcfg"
)

var update = flag.Bool("update", false, "rewrite the goldens")

const golden = "testdata/problems.txtar"

func documents(t testing.TB) *txtar.Archive {
	t.Helper()
	ar, err := txtar.ParseFile(filepath.FromSlash(golden))
	if err != nil {
		t.Fatal(err)
	}
	return ar
}

func document(t testing.TB, name string) []byte {
	t.Helper()
	for _, f := range documents(t).Files {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("no %s in the goldens", name)
	return nil
}

func TestProblems(t *testing.T) {
	ar := documents(t)
	for i := 0; i+1 < len(ar.Files); i += 2 {
		doc, want := ar.Files[i], &ar.Files[i+1]
		d, err := Parse(doc.Name, doc.Data, 1, Elsewhere{Services: []string{"node-js"}})
		got := ""
		if err != nil {
			got = err.Error() + "\n"
		}
		if err != nil && (d.Services != nil || d.Payloads != nil || d.Secrets != nil) {
			t.Errorf("%s: definitions beside an error", doc.Name)
		}
		if strings.Contains(got, "geheim") {
			t.Errorf("%s: a secret in the problems", doc.Name)
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

func TestDefaults(t *testing.T) {
	d, err := Parse("least.yaml", document(t, "least.yaml"), 7, Elsewhere{})
	if err != nil {
		t.Fatal(err)
	}
	got := d.Services[0]
	if len(got.Digest) != 64 {
		t.Errorf("digest %q", got.Digest)
	}
	got.Digest = ""
	want := Service{
		Name: "etcd", Generation: 7, Command: []string{"/usr/bin/etcd"},
		Restart: OnFailure, Stop: Stop{Signal: 15, Timeout: 10 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFull(t *testing.T) {
	d, err := Parse("full.yaml", document(t, "full.yaml"), 7, Elsewhere{})
	if err != nil {
		t.Fatal(err)
	}
	kubelet, _ := d.Service("kubelet")
	if l := kubelet.Limits; l.Memory != 2<<30 || l.CPU != 1.5 || l.PIDs != 4096 {
		t.Errorf("limits %+v", l)
	}
	if kubelet.Stop.Signal != 2 || kubelet.Stop.Timeout != 90*time.Second || kubelet.Core.Filter != 0x33 || kubelet.Logs.Burst != 1<<20 {
		t.Errorf("got %+v", kubelet)
	}
	if diff := cmp.Diff(&[]string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}, kubelet.Capabilities); diff != "" {
		t.Error(diff)
	}
	if f := kubelet.Files[0]; f.Path != "/etc/kubernetes/bootstrap.conf" || f.Mode != 0o600 {
		t.Errorf("file %+v", f)
	}
	vms, _ := d.Service("vms")
	if vms.Restart != Never || vms.Alive.Interval != time.Second || vms.Alive.Failures != 3 || len(*vms.Capabilities) != 0 {
		t.Errorf("got %+v, %+v", vms, vms.Alive)
	}
	containerd, _ := d.Service("containerd")
	if a := containerd.Alive; a.Interval != 90*time.Second || a.Timeout != 2*time.Second || a.Deadline != 10*time.Minute || a.Failures != 5 {
		t.Errorf("got %+v", a)
	}
	if diff := cmp.Diff([]string{"GOMAXPROCS=2", "PATH=/usr/bin:/usr/sbin"}, containerd.Env); diff != "" {
		t.Error(diff)
	}
}

// A digest changes with all that makes the service another one, and with
// nothing else.
func TestDigest(t *testing.T) {
	base := string(document(t, "full.yaml"))
	of := func(text string, generation uint64) string {
		t.Helper()
		d, err := Parse("full.yaml", []byte(text), generation, Elsewhere{})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := d.Service("kubelet")
		return s.Digest
	}
	want := of(base, 1)
	if of(base, 2) != want || of("# a comment\n"+base, 1) != want {
		t.Error("another generation is another digest")
	}
	if got := of(strings.Replace(base, "timeout: 5s", "timeout: 6s", 1), 1); got != want {
		t.Error("another service's change is another digest")
	}
	for _, change := range []string{
		"abcdef.0123 fedcba.0123", "456789abcdef0123456789abcdef\"} 456789abcdef0123456789abcdee\"}",
		"rate:_64Ki rate:_65Ki", "filter:_0x33 filter:_0x31", "timeout:_90 timeout:_91", "token:_{{ tolen:_{{",
	} {
		from, to, _ := strings.Cut(change, " ")
		from, to = strings.ReplaceAll(from, "_", " "), strings.ReplaceAll(to, "_", " ")
		changed := strings.Replace(base, from, to, 1)
		if changed == base {
			t.Fatalf("%s is not in the document", from)
		}
		if of(changed, 1) == want {
			t.Errorf("%s is the same digest", to)
		}
	}
}

func TestSecretsRefuseToBePrinted(t *testing.T) {
	d, err := Parse("full.yaml", document(t, "full.yaml"), 1, Elsewhere{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s %x", d, d, d, d.Secrets, d.Secrets); strings.Contains(text, "abcdef.") || strings.Contains(text, "6162636465662e") {
		t.Errorf("secret in %s", text)
	}
}

func FuzzParse(f *testing.F) {
	ar := documents(f)
	for i := 0; i < len(ar.Files); i += 2 {
		f.Add(ar.Files[i].Data)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("services.yaml", text, 1, Elsewhere{})
		var problems netcfg.Problems
		if err != nil && (!errors.As(err, &problems) || len(problems) == 0) {
			t.Fatalf("error without a problem: %v", err)
		}
		for _, s := range d.Services {
			if s.Name == "" || len(s.Command) == 0 || len(s.Digest) != 64 || s.Restart == "" || s.Stop.Signal == 0 {
				t.Fatalf("invalid service %+v", s)
			}
		}
	})
}

func FuzzSplitURL(f *testing.F) {
	f.Add("http://localhost:80/x?y")
	f.Add("http+unix:///run/x.sock:/y")
	f.Fuzz(func(t *testing.T, s string) {
		network, address, target, err := SplitURL(s)
		if err == nil && (address == "" || !strings.HasPrefix(target, "http://") || network != "tcp" && network != "unix") {
			t.Fatalf("%q: %q %q %q", s, network, address, target)
		}
	})
}

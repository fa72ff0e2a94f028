package operator

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The moment at which the golden files are looked at.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Each golden has the controller's answer and what the three formats make of it.
func TestNodeOutput(t *testing.T) {
	checkGoldens(t, "list-*.txtar", func(answer []byte) (any, func(io.Writer) error) {
		resp := new(clusterv1.ListNodesResponse)
		if err := protojson.Unmarshal(answer, resp); err != nil {
			t.Fatal(err)
		}
		nodes := NodesOf(resp)
		return nodes, func(w io.Writer) error { return WriteNodes(w, nodes, now) }
	})
	checkGoldens(t, "show-*.txtar", func(answer []byte) (any, func(io.Writer) error) {
		resp := new(clusterv1.Node)
		if err := protojson.Unmarshal(answer, resp); err != nil {
			t.Fatal(err)
		}
		node := NodeOf(resp)
		return node, func(w io.Writer) error { return WriteNode(w, node, now) }
	})
	checkGoldens(t, "ticket-*.txtar", func(answer []byte) (any, func(io.Writer) error) {
		resp := new(clusterv1.CreateTicketResponse)
		if err := protojson.Unmarshal(answer, resp); err != nil {
			t.Fatal(err)
		}
		ticket := TicketOf(resp)
		return ticket, func(w io.Writer) error { return WriteTicket(w, ticket, now) }
	})
}

func checkGoldens(t *testing.T, pattern string, render func([]byte) (any, func(io.Writer) error)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no golden file (%v)", pattern, err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		view, table := render(archive.Files[0].Data)
		want := &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1:1]}
		for _, f := range []Format{Table, JSON, YAML} {
			var out bytes.Buffer
			if err := f.Write(&out, view, table); err != nil {
				t.Fatal(err)
			}
			want.Files = append(want.Files, txtar.File{Name: f.String(), Data: out.Bytes()})
		}
		got := txtar.Format(want)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(txtar.Format(archive)), string(got)); diff != "" && !*update {
			t.Errorf("%s (-want +got, -update rewrites):\n%s", path, diff)
		}
	}
}

func TestRecordOutput(t *testing.T) {
	record := RecordOf(&clusterv1.LogRecord{Seq: 9, Uptime: durationpb.New(12345 * time.Millisecond),
		Origin: "netcfg", Level: "info", Text: "bond0 up <&>", Lost: 1})
	for f, want := range map[Format]string{
		Table: "-- 1 record not shown: the node no longer had them --\n[   12.345] netcfg        I bond0 up <&>\n",
		JSON:  `{"seq":9,"uptimeSeconds":12.345,"origin":"netcfg","level":"info","text":"bond0 up <&>","lost":1}` + "\n",
		YAML:  "---\nseq: 9\nuptimeSeconds: 12.345\norigin: netcfg\nlevel: info\ntext: bond0 up <&>\nlost: 1\n",
	} {
		var out bytes.Buffer
		if err := f.writeRecord(&out, record); err != nil || out.String() != want {
			t.Errorf("%s: got %q, %v, want %q", f, out.String(), err, want)
		}
	}
}

// A crash trace reads as it was written, and cannot look like other records.
func TestRecordOfManyLines(t *testing.T) {
	var out bytes.Buffer
	err := Table.writeRecord(&out, Record{UptimeSeconds: 1, Origin: "crash", Level: "crash", Text: "panic: x\n\tmain.go:1\n[    2.000] init          C not me"})
	want := "[    1.000] crash         C panic: x\n    \tmain.go:1\n    [    2.000] init          C not me\n"
	if err != nil || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 12 * time.Second: "12s", 24*time.Hour - time.Millisecond: "24h", 90 * time.Second: "1m",
		47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * 24 * time.Hour: "1000d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestFormatFlag(t *testing.T) {
	f := Table
	if err := f.Set("yaml"); err != nil || f != YAML {
		t.Errorf("got %v, %v", f, err)
	}
	if err := f.Set("xml"); err == nil || f != YAML {
		t.Errorf("got %v, %v", f, err)
	}
}

func TestExplain(t *testing.T) {
	refusal := identity.Refuse(connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN, "the cluster has no node n1", "reveille node list shows the names")
	for _, tc := range []struct {
		err  error
		want string
	}{
		{refusal, "show node n1: the cluster has no node n1; reveille node list shows the names"},
		{connect.NewError(connect.CodeUnavailable, errors.New("dial 127.0.0.1:1: connection refused")),
			"show node n1: no controller of the context answers: dial 127.0.0.1:1: connection refused; is one running there?"},
		{connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded), "show node n1: no answer in time; see the controller's log"},
		{errors.New("write output: broken pipe"), "show node n1: write output: broken pipe"},
	} {
		if got := Explain("show node n1", tc.err).Error(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestContextRoundTrip(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "operator.yaml")
	c := newContext(t)
	for range 2 { // over an older one too
		if err := c.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left %v, %v", files, err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Endpoints) != fmt.Sprint(c.Endpoints) || !got.CA.Equal(c.CA) || !got.Certificate.Equal(c.Certificate) {
		t.Errorf("got %v", got)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := newContext(t).Write(good); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	key := between(t, string(data), "-----BEGIN PRIVATE KEY-----\n    ", "\n")
	for _, tc := range []struct{ name, old, new, want string }{
		{"not YAML", "version: 1", "version: [", "is not an operator context"},
		{"unknown field", "version: 1", "version: 1\nmore: 1", "is not an operator context"},
		{"newer version", "version: 1", "version: 2", "has version 2, this program reads 1"},
		{"no endpoint", "endpoints:\n    - 127.0.0.1:7443\n    - '[fd00::1]:7443'", "endpoints: []", "lists no endpoint"},
		{"bad endpoint", "127.0.0.1:7443", "127.0.0.1", "want host:port"},
		{"torn key", key, "AAAA" + key[4:], "parse key: not a PKCS #8 private key"},
		{"no certificate", "certificate: |", "certificate: ''\nx: |", "is not an operator context"},
		{"wrong block", "BEGIN PRIVATE KEY", "BEGIN SECRET", "want a PEM block"},
		{"too large", "version: 1", strings.Repeat("#", maxFile) + "\nversion: 1", "larger than any context"},
	} {
		path := filepath.Join(dir, "bad")
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), tc.old, tc.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), key[4:20]) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Load(""); err == nil || !strings.Contains(err.Error(), "--context FILE") {
		t.Errorf("got %v", err)
	}
}

func TestContextDates(t *testing.T) {
	c := newContext(t)
	for _, tc := range []struct {
		now  time.Time
		want string
	}{
		{time.Now(), ""},
		{c.Certificate.NotAfter, "certificate of the operator expired at"},
		{time.Unix(0, 0), "local time is 1970-01-01T00:00:00Z: check the clock; a controller writes a new context at every start"},
	} {
		err := c.checkDates(tc.now)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("at %s: got %v, want %q", tc.now, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 1\nendpoints: [127.0.0.1:1]\nca: x\ncertificate: x\nkey: x\n"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := parse(data); err == nil && (c.CA == nil || c.Certificate == nil || c.Key == nil || len(c.Endpoints) == 0) {
			t.Errorf("accepted half a context: %+v", c)
		}
	})
}

func between(t *testing.T, s, begin, end string) string {
	t.Helper()
	_, s, ok := strings.Cut(s, begin)
	if !ok {
		t.Fatalf("no %q", begin)
	}
	s, _, _ = strings.Cut(s, end)
	return s
}

func newContext(t *testing.T) *Context {
	t.Helper()
	a, err := identity.NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(identity.RoleOperator, "operator", key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return &Context{Endpoints: []string{"127.0.0.1:7443", "[fd00::1]:7443"}, CA: a.Certificate, Certificate: cert, Key: key}
}

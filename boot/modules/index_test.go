package modules

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `reveille modules 1
builtin tpm_crb
module bonding kernel/bonding.ko tls
module tls kernel/tls.ko
alias tls tcp-ulp-tls
module virtio_net kernel/virtio_net.ko net_failover tpm_crb
soft virtio_net failover absent
alias virtio_net virtio:d00000001v*
module net_failover kernel/net_failover.ko failover
module failover kernel/failover.ko
soft failover virtio_net
alias failover virtio:d0000000[1-3]v*
module a kernel/a.ko b
module b kernel/b.ko a
module orphan kernel/orphan.ko nowhere
`

func parse(t testing.TB, s string) *Index {
	t.Helper()
	ix, err := ParseIndex(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func TestOrder(t *testing.T) {
	for _, c := range []struct{ name, want, err string }{
		{"tls", "tls", ""},
		{"bonding", "tls bonding", ""},
		{"virtio-net", "failover net_failover virtio_net", ""}, // a soft loop, a missing soft, a built-in
		{"tpm_crb", "", ""},
		{"a", "", "module a: depends on itself through b"},
		{"orphan", "", "module nowhere, needed by orphan: not in this image"},
		{"nonsense", "", "module nonsense: not in this image"},
	} {
		order, err := parse(t, sample).Order(c.name)
		var names []string
		for _, m := range order {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: order %q, want %q", c.name, got, c.want)
		}
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
	}
	if _, err := parse(t, sample).Order("nonsense"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v is not ErrUnknown", err)
	}
}

func TestIndexMatch(t *testing.T) {
	ix := parse(t, sample)
	for alias, want := range map[string][]string{
		"virtio:d00000001v00001AF4": {"failover", "virtio_net"},
		"virtio:d00000002v00001AF4": {"failover"},
		"pci:d00000001v00001AF4":    nil,
		"tcp-ulp-tls":               {"tls"},
		"":                          nil,
	} {
		if diff := cmp.Diff(want, ix.Match(alias)); diff != "" {
			t.Errorf("%s: %s", alias, diff)
		}
	}
}

func TestParseIndexRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "line 1: want",
		"reveille modules 2\n":               "line 1: want",
		"reveille modules 1\nmodule x\n":     `line 2: not understood: "module x"`,
		"reveille modules 1\nalias x y\n":    "line 2: alias before its module line",
		"reveille modules 1\nbuiltin a  b\n": "line 2: empty word",
		"reveille modules 1\nmodule x p\nmodule x p\n": "line 3: module x: listed twice",
	} {
		if _, err := ParseIndex(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// FuzzIndex: what is understood is written again as the same index.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("reveille modules 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ix, err := ParseIndex(bytes.NewReader(b))
		if err != nil {
			return
		}
		text := ix.Format()
		again, err := ParseIndex(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("own format is refused: %v\n%s", err, text)
		}
		if !bytes.Equal(text, again.Format()) {
			t.Fatalf("written differently:\n%s\n%s", text, again.Format())
		}
		for _, n := range ix.Names() {
			_, _ = ix.Order(n)
			ix.Match(n)
		}
	})
}

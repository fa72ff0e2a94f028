package identity

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/clusterv1"
)

func TestPeerOf(t *testing.T) {
	uri := func(s ...string) *x509.Certificate {
		c := new(x509.Certificate)
		for _, u := range s {
			parsed, err := url.Parse(u)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, parsed)
		}
		return c
	}
	for _, tc := range []struct {
		cert *x509.Certificate
		want string // of the error; empty: node n1 of c1
	}{
		{uri("reveille://c1/node/n1"), ""},
		{uri("https://example.org/", "reveille://c1/node/n1"), ""},
		{uri(), "0 reveille:// names"},
		{uri("reveille://c1/node/n1", "reveille://c1/operator/x"), "2 reveille:// names"},
		{uri("reveille://c1/root/n1"), `unknown role "root"`},
		{uri("reveille://c1/node"), "want reveille://<cluster-id>/<role>/<name>"},
		{uri("reveille://c1/node/n1/x"), "want reveille://<cluster-id>/<role>/<name>"},
		{uri("reveille://c1/node/N1"), "want a DNS label"},
		{uri("reveille:///node/n1"), "want a DNS label"},
		{uri("reveille://c1:80/node/n1"), "want a DNS label"},
		{uri("reveille://u@c1/node/n1"), "not in plain form"},
		{uri("reveille://c1/node/n1?role=operator"), "not in plain form"},
		{uri("reveille://c1/node/n1#x"), "not in plain form"},
	} {
		got, err := PeerOf(tc.cert)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%v: %v", tc.cert.URIs, err)
		case tc.want == "" && !got.matches(Peer{"c1", RoleNode, "n1", ""}):
			t.Errorf("%v: got %+v", tc.cert.URIs, got)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%v: got error %v, want %q", tc.cert.URIs, err, tc.want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		"n1": true, "a": true, "rack-3-node-12": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "N1": false, "n_1": false, "-a": false, "a-": false, "a.b": false, "a/b": false,
		"n1\n": false, "ö": false, strings.Repeat("a", 64): false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("CheckName(%q) = %v, want good %v", name, err, good)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for addr, good := range map[string]bool{
		"10.0.2.2:7443": true, "[fd00::10]:7443": true, "c1.example.org:1": true, "localhost:65535": true, "C1.example.org.:7443": true,
		"": false, "10.0.2.2": false, "fd00::10:7443": false, "10.0.2.2:0": false, "10.0.2.2:65536": false, "10.0.2.2:http": false,
		"0.0.0.0:7443": false, "[::]:7443": false, ":7443": false, "10.0.0.300:7443": false, "a b:7443": false,
		"[fe80::1%eth0]:7443": false, "[ff02::1]:7443": false, "a..b:1": false, strings.Repeat("a.", 127) + "b:1": false,
	} {
		if err := CheckAddress(addr); (err == nil) != good {
			t.Errorf("CheckAddress(%q) = %v, want good %v", addr, err, good)
		}
	}
}

func TestPinRoundTrip(t *testing.T) {
	want := PinOf(testCA(t, "c1").Certificate)
	got, err := ParsePin(want.String())
	if err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "sha256:", want.String()[:70], want.String() + "0", "sha1" + want.String()[6:], "sha256:" + strings.Repeat("g", 64)} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("ParsePin(%q) accepted", bad)
		}
	}
}

func TestKeyIsNeverPrinted(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", key)
	_, jsonErr := json.Marshal(key)
	text := fmt.Sprintf("%v %+v %#v %s %x %d", key, key, key, key, key, key) + log.String()
	raw, err := key.key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{new(big.Int).SetBytes(raw).String(), fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), fmt.Sprint(raw)} {
		if strings.Contains(text, secret) {
			t.Errorf("the key is in %q", text)
		}
	}
	if jsonErr == nil {
		t.Error("JSON encoded the key")
	}
	der, err := key.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKey(der)
	if err != nil || !again.key.Equal(key.key) {
		t.Errorf("round trip: %v", err)
	}
}

func TestParseCSR(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := NewCSR(key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ParseCSR(der, "n1")
	if err != nil || !pub.Equal(key.Public()) {
		t.Errorf("got %v, %v", pub, err)
	}
	if _, err := ParseCSR(der, "n2"); err == nil {
		t.Error("accepted a request for another name")
	}
	for i := range der { // no flipped bit may pass
		bad := append([]byte{}, der...)
		bad[i] ^= 1
		if _, err := ParseCSR(bad, "n1"); err == nil {
			t.Errorf("accepted a request with byte %d changed", i)
		}
	}
}

func FuzzParseCSR(f *testing.F) {
	key, err := NewKey()
	if err != nil {
		f.Fatal(err)
	}
	der, err := NewCSR(key, "n1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, der []byte) {
		if pub, err := ParseCSR(der, "n1"); err == nil && pub == nil {
			t.Error("no key and no error")
		}
	})
}

func TestParseGrant(t *testing.T) {
	ca, other := testCA(t, "c1"), testCA(t, "c2")
	key, stranger := testKey(t), testKey(t)
	now := time.Now()
	leaf := issue(t, ca, RoleNode, "n1", key, now)
	good := func() *clusterv1.EnrolResponse {
		return &clusterv1.EnrolResponse{
			NodeId: "id", ClusterId: "c1", Certificate: leaf.Raw, CaCertificate: ca.Certificate.Raw,
			Directory: signed(ca, "10.0.2.2:7443")(t), TpmMode: clusterv1.TpmMode_TPM_MODE_REQUIRED,
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*clusterv1.EnrolResponse)
		is     error
		text   string
	}{
		{"good", func(*clusterv1.EnrolResponse) {}, nil, ""},
		{"another CA", func(r *clusterv1.EnrolResponse) { r.CaCertificate = other.Certificate.Raw }, ErrPin, "not the one that cluster.ca pins"},
		{"no CA", func(r *clusterv1.EnrolResponse) { r.CaCertificate = nil }, nil, "parse CA certificate"},
		{"certificate of another CA", func(r *clusterv1.EnrolResponse) {
			r.Certificate = issue(t, other, RoleNode, "n1", key, now).Raw
		}, nil, "unknown authority"},
		{"another name", func(r *clusterv1.EnrolResponse) {
			r.Certificate = issue(t, ca, RoleNode, "n2", key, now).Raw
		}, ErrIdentity, "got reveille://c1/node/n2, want node n1"},
		{"another role", func(r *clusterv1.EnrolResponse) {
			r.Certificate = issue(t, ca, RoleOperator, "n1", key, now).Raw
		}, ErrIdentity, "operator"},
		{"another cluster id", func(r *clusterv1.EnrolResponse) { r.ClusterId = "c2" }, ErrIdentity, "reveille://c1"},
		{"another key", func(r *clusterv1.EnrolResponse) {
			r.Certificate = issue(t, ca, RoleNode, "n1", stranger, now).Raw
		}, nil, "is for another key"},
		{"undecided TPM mode", func(r *clusterv1.EnrolResponse) { r.TpmMode = clusterv1.TpmMode_TPM_MODE_PREFERRED }, nil, "not a decision"},
		{"no directory", func(r *clusterv1.EnrolResponse) { r.Directory = nil }, ErrDirectoryEmpty, ""},
		{"not yet valid", func(r *clusterv1.EnrolResponse) {
			r.Certificate = issue(t, ca, RoleNode, "n1", key, now.AddDate(1, 0, 0)).Raw
		}, nil, ""}, // the answer tells the time, so the time cannot judge it
	} {
		resp := good()
		tc.change(resp)
		g, err := ParseGrant(resp, PinOf(ca.Certificate), "n1", key.Public())
		if tc.is == nil && tc.text == "" {
			if err != nil || g.Peer != (Peer{ClusterID: "c1", Role: RoleNode, Name: "n1"}) {
				t.Errorf("%s: got %+v, %v", tc.name, g, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.text) || (tc.is != nil && !errors.Is(err, tc.is)) {
			t.Errorf("%s: got error %v, want %v %q", tc.name, err, tc.is, tc.text)
		}
	}
}

func testCA(t testing.TB, cluster string) *Authority {
	t.Helper()
	a, err := NewAuthority(cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func testKey(t testing.TB) *Key {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func issue(t testing.TB, a *Authority, role Role, name string, key *Key, now time.Time) *x509.Certificate {
	t.Helper()
	cert, err := a.Issue(role, name, key.Public(), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

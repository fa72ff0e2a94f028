package identity

import (
	"crypto"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
)

// signed makes a directory of one controller a with the given addresses; none:
// no controller.
func signed(a *Authority, addrs ...string) func(testing.TB) *clusterv1.SignedDirectory {
	return func(t testing.TB) *clusterv1.SignedDirectory {
		t.Helper()
		pin := PinOf(a.Certificate)
		dir := &clusterv1.Directory{Generation: 7, CaSha256: hex.EncodeToString(pin[:])}
		if len(addrs) > 0 {
			dir.Controllers = []*clusterv1.Controller{{Name: "a", Addresses: addrs}}
		}
		out, err := SignDirectory(dir, a.Key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func TestVerifyDirectory(t *testing.T) {
	ca, other := testCA(t, "c1"), testCA(t, "c2")
	foreign := signed(other, "10.0.0.1:1")(t)
	// Signed by our key, but naming another CA.
	misnamed, err := SignDirectory(&clusterv1.Directory{CaSha256: strings.Repeat("0", 64)}, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		signed *clusterv1.SignedDirectory
		is     error
		want   string // addresses kept
	}{
		{"good", signed(ca, "10.0.0.1:1", "[fd00::1]:1")(t), nil, "10.0.0.1:1 [fd00::1]:1"},
		{"some invalid", signed(ca, "10.0.0.1", "[fd00::1]:1")(t), nil, "[fd00::1]:1"},
		{"too many", signed(ca, strings.Fields(strings.Repeat("10.0.0.1:1 ", 99))...)(t), nil, strings.TrimSpace(strings.Repeat("10.0.0.1:1 ", maxAddresses))},
		{"nil", nil, ErrDirectoryEmpty, ""},
		{"no bytes", &clusterv1.SignedDirectory{Signature: []byte{1}}, ErrDirectoryEmpty, ""},
		{"no controller", signed(ca)(t), ErrDirectoryEmpty, ""},
		{"no valid address", signed(ca, "0.0.0.0:1", ":2")(t), ErrDirectoryAddresses, ""},
		{"another CA", foreign, ErrDirectorySignature, ""},
		{"names another CA", misnamed, ErrDirectorySignature, ""},
		{"no signature", &clusterv1.SignedDirectory{Directory: foreign.GetDirectory()}, ErrDirectorySignature, ""},
	} {
		dir, err := VerifyDirectory(tc.signed, ca.Certificate)
		if !errors.Is(err, tc.is) {
			t.Errorf("%s: got error %v, want %v", tc.name, err, tc.is)
		}
		if err == nil {
			if got := strings.Join(dir.GetControllers()[0].GetAddresses(), " "); got != tc.want {
				t.Errorf("%s: kept %q, want %q", tc.name, got, tc.want)
			}
		} else if dir != nil {
			t.Errorf("%s: a directory beside an error", tc.name)
		}
	}
}

func TestVerifyDirectoryRefusesEveryFlippedBit(t *testing.T) {
	ca := testCA(t, "c1")
	whole := signed(ca, "10.0.0.1:1")(t)
	for i := range whole.GetDirectory() {
		bad := proto.CloneOf(whole)
		bad.Directory[i] ^= 0x10
		if _, err := VerifyDirectory(bad, ca.Certificate); !errors.Is(err, ErrDirectorySignature) {
			t.Errorf("byte %d changed: got error %v", i, err)
		}
	}
}

func FuzzVerifyDirectory(f *testing.F) {
	ca := testCA(f, "c1")
	good := signed(ca, "10.0.0.1:1")(f)
	f.Add(good.GetDirectory())
	f.Add([]byte{})
	f.Add([]byte("\x1a\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Signed, so that the decoding behind the signature is reached.
		sig, err := ca.Key.Sign(rand.Reader, directoryDigest(data), crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := VerifyDirectory(&clusterv1.SignedDirectory{Directory: data, Signature: sig}, ca.Certificate)
		if err != nil {
			return
		}
		for _, c := range dir.GetControllers() {
			for _, addr := range c.GetAddresses() {
				if CheckAddress(addr) != nil {
					t.Errorf("kept %q", addr)
				}
			}
		}
	})
}

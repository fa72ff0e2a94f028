package tpm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"reflect"
	"testing"
)

var (
	testKey    = bytes.Repeat([]byte{7}, 32)
	testBody   = []byte(`{"phase":"enrolled"}`)
	testHeader = Header{
		Generation: 12, Cluster: "c1", Node: "n1", Mode: Required, Phase: "enrolled",
		PCRs:  PCRs{{Index: 4, Digest: sha256.Sum256([]byte("4"))}, {Index: 11}},
		Slots: []Slot{{Kind: SlotTPM2, Policy: PolicyPCR, PCRs: PCRs{{Index: 11}}, SRK: []byte("srk"), Public: []byte("public"), Private: []byte("private")}},
	}
)

func sealedEnvelope(tb testing.TB) []byte {
	tb.Helper()
	raw, err := EncodeSealed(testHeader, testKey, testBody)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func plainEnvelope(tb testing.TB) []byte {
	tb.Helper()
	raw, err := Encode(Plain, Header{Generation: 3, Mode: Disabled}, testBody)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func TestEnvelopeRoundTrip(t *testing.T) {
	e, err := Parse(append(sealedEnvelope(t), make([]byte, 100)...))
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind != Sealed || !reflect.DeepEqual(e.Header, testHeader) {
		t.Errorf("got kind %d, %+v", e.Kind, e.Header)
	}
	if body, err := e.Open(testKey); err != nil || !bytes.Equal(body, testBody) {
		t.Errorf("got %q, %v", body, err)
	}
	if _, err := e.PlainBody(); err == nil {
		t.Error("a sealed body was handed out as plain")
	}
	if e, err = Parse(plainEnvelope(t)); err != nil || e.Kind != Plain {
		t.Fatalf("got %+v, %v", e, err)
	}
	if body, err := e.PlainBody(); err != nil || !bytes.Equal(body, testBody) {
		t.Errorf("got %q, %v", body, err)
	}
	if _, err := e.Open(testKey); err == nil {
		t.Error("a plain envelope was opened with a key")
	}
}

// TestEveryFlippedBitIsRefused: as damage, by the checksum.
func TestEveryFlippedBitIsRefused(t *testing.T) {
	for _, raw := range [][]byte{sealedEnvelope(t), plainEnvelope(t)} {
		raw = append(raw, make([]byte, 64)...)
		for i := range raw {
			for bit := range 8 {
				raw[i] ^= 1 << bit
				if _, err := Parse(raw); OutcomeOf(err) != Corrupt {
					t.Fatalf("byte %d bit %d: got %v, want Corrupt", i, bit, err)
				}
				raw[i] ^= 1 << bit
			}
		}
	}
}

// TestForgeryIsRefused: somebody who can write the disk makes the checksum
// right again; the seal still covers frame, header and body.
func TestForgeryIsRefused(t *testing.T) {
	raw := sealedEnvelope(t)
	for i := range len(raw) - sha256.Size {
		for _, flip := range []byte{0x01, 0x20, 0x80} {
			forged := bytes.Clone(raw)
			forged[i] ^= flip
			sum := sha256.Sum256(forged[:len(forged)-sha256.Size])
			copy(forged[len(forged)-sha256.Size:], sum[:])
			e, err := Parse(forged)
			if err != nil || e.Kind != Sealed {
				continue
			}
			if _, err := e.Open(testKey); OutcomeOf(err) != Corrupt {
				t.Fatalf("byte %d changed by %#x: got %v, want Corrupt", i, flip, err)
			}
		}
	}
}

func TestTruncatedEnvelopeIsCorrupt(t *testing.T) {
	raw := sealedEnvelope(t)
	for n := range raw {
		if _, err := Parse(raw[:n]); OutcomeOf(err) != Corrupt {
			t.Fatalf("%d bytes: got %v", n, err)
		}
	}
}

func TestNewerVersionIsNotDamage(t *testing.T) {
	raw := plainEnvelope(t)
	raw[9]++
	sum := sha256.Sum256(raw[:len(raw)-sha256.Size])
	copy(raw[len(raw)-sha256.Size:], sum[:])
	if _, err := Parse(raw); OutcomeOf(err) != Newer {
		t.Errorf("got %v", err)
	}
}

func TestEncodeRefusesWhatParseWould(t *testing.T) {
	if _, err := Encode(Plain, Header{}, make([]byte, maxPart+1)); err == nil {
		t.Error("encoded a body that is too long")
	}
	if _, err := Encode(Sealed, Header{}, nil); err == nil {
		t.Error("encoded a sealed envelope without a key")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sealedEnvelope(f))
	f.Add(plainEnvelope(f))
	blank, err := Encode(Blank, Header{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blank)
	f.Add(append(blank, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Also behind the checksum, which a fuzzer cannot guess.
		if len(b) >= sha256.Size {
			sum := sha256.Sum256(b[:len(b)-sha256.Size])
			copy(b[len(b)-sha256.Size:], sum[:])
		}
		e, err := Parse(b)
		if err != nil {
			if o := OutcomeOf(err); o != Corrupt && o != Newer {
				t.Fatalf("outcome %d: %v", o, err)
			}
			return
		}
		if e.Kind == Sealed {
			if _, err := e.Open(testKey); err == nil && !bytes.Equal(b, sealedEnvelope(t)) {
				t.Fatal("opened what was not sealed")
			}
		}
	})
}

func TestOutcomesHaveMessageAndRemedy(t *testing.T) {
	seen := map[string]Outcome{}
	for o := Absent; o <= WrongMode; o++ {
		if o.Error() == "" || o.Remedy() == "" {
			t.Errorf("outcome %d has no message or remedy", o)
		}
		if other, ok := seen[o.Error()]; ok {
			t.Errorf("outcomes %d and %d read the same", o, other)
		}
		seen[o.Error()] = o
	}
	err := error(&Error{Outcome: Lockout, Detail: "for 10s", Err: errors.New("cause")})
	if got, want := err.Error(), "TPM locked out: for 10s: cause"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

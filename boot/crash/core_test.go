package crash

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestCoreFits: what was taken comes back, through a record, and a core that
// does not compress is cut.
func TestCoreFits(t *testing.T) {
	noise := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise) // has no error
	for name, core := range map[string][]byte{
		"none": nil, "small": []byte("\x7fELF core"), "zeros": make([]byte, 20<<20), "noise": noise,
		"first noise, then zeros": append(noise[:100<<10:100<<10], make([]byte, 8<<20)...),
	} {
		packed, taken, err := PackCore(bytes.NewReader(core))
		if err != nil || len(packed) > MaxCore || taken < min(len(core), 64<<10) {
			t.Errorf("%s: %d bytes of %d in %d, %v", name, taken, len(core), len(packed), err)
		}
		full := make([]byte, maxLog)
		r, _, err := Parse(Record{Kind: Service, Trace: []byte("evidence\n"), Log: bytes.Repeat([]byte("l\n"), len(full)), Dmesg: packed}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		got, err := UnpackCore(r.Dmesg)
		if err != nil || !bytes.Equal(got, core[:taken]) {
			t.Errorf("%s: %d bytes come back of %d, %v", name, len(got), taken, err)
		}
	}
}

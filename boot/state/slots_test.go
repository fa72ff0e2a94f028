package state

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reveille/tpm"
)

// disk is a folder with a volatile write cache: until a sync, any subset of the
// sectors written may have reached the platter when the power goes.
type disk struct {
	durable map[string][]byte
	power   int // write steps left before the power is cut
	rng     *rand.Rand
}

var errPowerCut = errors.New("power cut")

const sector = 512

// step consumes power; it returns false when the cut comes before the next step.
func (d *disk) step() bool {
	d.power--
	return d.power >= 0
}

func (d *disk) read(name string) ([]byte, error) {
	b, ok := d.durable[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return bytes.Clone(b), nil
}

func (d *disk) create(name string, content []byte) error {
	if !d.step() {
		return errPowerCut
	}
	d.durable[name] = bytes.Clone(content)
	return nil
}

// overwrite has three places for a cut: nothing written, some sectors written
// (of them one perhaps torn), all written but not acknowledged.
func (d *disk) overwrite(name string, content []byte) ([]byte, error) {
	if !d.step() {
		return nil, errPowerCut
	}
	old := d.durable[name]
	if !d.step() {
		d.durable[name] = d.torn(old, content)
		return nil, errPowerCut
	}
	d.durable[name] = bytes.Clone(content)
	if !d.step() {
		return nil, errPowerCut
	}
	return bytes.Clone(content), nil
}

// torn mixes old and new sectors in one of the ways that disks do.
func (d *disk) torn(old, content []byte) []byte {
	out := bytes.Clone(old)
	sectors := len(content) / sector
	prefix, kind := d.rng.IntN(sectors+1), d.rng.IntN(4)
	for i := range sectors {
		written := i < prefix // in order
		switch kind {
		case 1:
			written = i >= prefix // from the end
		case 2:
			written = d.rng.IntN(2) == 0 // as the cache likes
		}
		if written {
			copy(out[i*sector:], content[i*sector:(i+1)*sector])
		}
	}
	if kind == 3 && prefix < sectors { // the sector under the head is rubbish
		for i := range sector {
			out[prefix*sector+i] = byte(d.rng.Uint32())
		}
	}
	return out
}

func envelope(t *testing.T, gen uint64) []byte {
	t.Helper()
	raw, err := tpm.Encode(tpm.Plain, tpm.Header{Generation: gen}, bytes.Repeat([]byte{byte(gen)}, int(3000+gen)))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestPowerCuts writes generations until the power goes, at every step and in
// many ways, several times over, and never finds less than was acknowledged.
func TestPowerCuts(t *testing.T) {
	cuts := 0
	for seed := range uint64(5) {
		for power := range 24 {
			d := &disk{durable: map[string][]byte{}, rng: rand.New(rand.NewPCG(seed, uint64(power)))}
			var acked, tried uint64
			for range 4 { // boots
				d.power = power
				last := checkStored(t, d, acked, tried)
				for gen := last + 1; ; gen++ {
					tried = gen
					if err := (Slots{d}).Write(envelope(t, gen)); err != nil {
						break
					}
					acked = gen
				}
				cuts++
				power = 1 + d.rng.IntN(23)
			}
			checkStored(t, d, acked, tried)
		}
	}
	t.Logf("%d power cuts, none lost", cuts)
}

// checkStored returns the generation found, zero for Absent.
func checkStored(t *testing.T, d *disk, acked, tried uint64) uint64 {
	t.Helper()
	st, err := Slots{d}.Read()
	if errors.Is(err, tpm.Absent) && acked == 0 {
		return 0
	}
	if err != nil {
		t.Fatalf("after generation %d was acknowledged: %v", acked, err)
	}
	gen := st.Envelope.Header.Generation
	if gen < acked || gen > tried {
		t.Fatalf("found generation %d, acknowledged was %d, tried %d", gen, acked, tried)
	}
	return gen
}

func TestWhatTwoCopiesMean(t *testing.T) {
	d := &disk{durable: map[string][]byte{}, power: 1 << 30}
	if err := (Slots{d}).prepare([2]copyState{}); err != nil {
		t.Fatal(err)
	}
	blank := d.durable[slotNames[0]]
	pad := func(raw []byte) []byte { return append(raw, make([]byte, slotSize-len(raw))...) }
	old, cur := pad(envelope(t, 7)), pad(envelope(t, 8))
	half := append(bytes.Clone(cur[:slotSize/2]), make([]byte, slotSize/2)...)
	half[40] ^= 1
	newer := bytes.Clone(pad(newerEnvelope(t)))
	contents := map[string][]byte{
		"blank": blank, "gen 7": old, "gen 8": cur, "torn": half, "newer": newer,
		"zeros": make([]byte, slotSize), "empty": {}, "short": cur[:4096], "long": append(bytes.Clone(cur), 0),
	}
	for _, test := range []struct{ a, b, want string }{
		{"missing", "missing", "absent"},
		{"blank", "missing", "absent"},
		{"blank", "blank", "absent"},
		{"torn", "blank", "absent"}, // the first write, cut off
		{"zeros", "blank", "absent"},
		{"blank", "torn", "corrupt"}, // config.1 is never written first
		{"torn", "torn", "corrupt"},
		{"torn", "missing", "corrupt"},
		{"zeros", "zeros", "corrupt"},
		{"empty", "empty", "corrupt"},
		{"empty", "missing", "corrupt"},
		{"gen 7", "gen 8", "gen 8"},
		{"gen 8", "gen 7", "gen 8"},
		{"gen 8", "gen 8", "gen 8 whole"},
		{"gen 8", "torn", "gen 8 warned"},
		{"zeros", "gen 8", "gen 8 warned"},
		{"empty", "gen 8", "gen 8 warned"},
		{"short", "gen 8", "gen 8 warned"},
		{"gen 8", "long", "gen 8 warned"},
		{"gen 8", "missing", "gen 8"},
		{"blank", "gen 8", "gen 8"},
		{"newer", "newer", "newer"},
		{"newer", "torn", "newer"},
		{"newer", "blank", "newer"},
		{"gen 8", "newer", "gen 8 warned"},
	} {
		t.Run(test.a+" "+test.b, func(t *testing.T) {
			d := &disk{durable: map[string][]byte{}, power: 1 << 30}
			for i, what := range []string{test.a, test.b} {
				if what != "missing" {
					d.durable[slotNames[i]] = contents[what]
				}
			}
			if got := summary(Slots{d}.Read()); got != test.want {
				t.Fatalf("got %s, want %s", got, test.want)
			}
			if strings.HasPrefix(test.want, "gen") { // and a write makes it whole
				if err := (Slots{d}).Write(envelope(t, 9)); err != nil {
					t.Fatal(err)
				}
				if got := summary(Slots{d}.Read()); got != "gen 9 whole" {
					t.Errorf("after a write: %s", got)
				}
			}
		})
	}
}

func newerEnvelope(t *testing.T) []byte {
	t.Helper()
	raw, err := tpm.Encode(tpm.Plain, tpm.Header{Generation: 9}, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	return resum(raw, func(b []byte) { b[9] = 2 })
}

// resum changes an envelope and makes its checksum right again.
func resum(raw []byte, change func([]byte)) []byte {
	out := bytes.Clone(raw)
	change(out)
	sum := sha256.Sum256(out[:len(out)-32])
	copy(out[len(out)-32:], sum[:])
	return out
}

func summary(st Stored, err error) string {
	switch tpm.OutcomeOf(err) {
	case tpm.Absent:
		return "absent"
	case tpm.Corrupt:
		return "corrupt"
	case tpm.Newer:
		return "newer"
	case tpm.Unreadable:
		return "unreadable"
	}
	s := fmt.Sprintf("gen %d", st.Envelope.Header.Generation)
	if st.Whole {
		s += " whole"
	}
	if len(st.Warnings) > 0 {
		s += " warned"
	}
	return s
}

// TestPreallocationCut: temporary files of a cut preallocation mean nothing.
func TestPreallocationCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reveille")
	s := Slots{newFolder(dir)}
	if got := summary(s.Read()); got != "absent" {
		t.Fatalf("no folder: %s", got)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.0.new"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := summary(s.Read()); got != "absent" {
		t.Fatalf("temporary file only: %s", got)
	}
	if err := s.Write(envelope(t, 1)); err != nil {
		t.Fatal(err)
	}
	if got := summary(s.Read()); got != "gen 1 whole" {
		t.Fatalf("after a write: %s", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("want the two copies only, got %v, %v", files, err)
	}
}

// TestOverwriteInPlace: the files are the same inodes of the same size for ever.
func TestOverwriteInPlace(t *testing.T) {
	dir := t.TempDir()
	s := Slots{newFolder(dir)}
	var before [2]os.FileInfo
	for gen := range uint64(4) {
		if err := s.Write(envelope(t, gen+1)); err != nil {
			t.Fatal(err)
		}
		for i, name := range slotNames {
			fi, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if before[i] != nil && !os.SameFile(before[i], fi) || fi.Size() != slotSize {
				t.Errorf("%s was replaced or resized to %d", name, fi.Size())
			}
			before[i] = fi
		}
	}
}

// failing is a disk that refuses or lies.
type failing struct {
	*disk
	readErr, writeErr error
	lie               bool
}

func (f failing) read(name string) ([]byte, error) {
	if f.readErr != nil {
		return nil, f.readErr
	}
	return f.disk.read(name)
}

func (f failing) overwrite(name string, content []byte) ([]byte, error) {
	if f.writeErr != nil {
		return nil, f.writeErr
	}
	back, err := f.disk.overwrite(name, content)
	if f.lie {
		back[100] ^= 1
	}
	return back, err
}

func TestSickDisk(t *testing.T) {
	d := &disk{durable: map[string][]byte{}, power: 1 << 30}
	if err := (Slots{d}).Write(envelope(t, 1)); err != nil {
		t.Fatal(err)
	}
	if got := summary(Slots{failing{disk: d, readErr: errors.New("input/output error")}}.Read()); got != "unreadable" {
		t.Errorf("read error: %s", got)
	}
	before := maps.Clone(d.durable)
	if err := (Slots{failing{disk: d, writeErr: fs.ErrPermission}}).Write(envelope(t, 2)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("write error: %v", err)
	}
	if err := (Slots{failing{disk: d, lie: true}}).Write(envelope(t, 2)); err == nil {
		t.Error("a read back that differs was accepted")
	}
	if !bytes.Equal(before[slotNames[1]], d.durable[slotNames[1]]) && !bytes.Equal(before[slotNames[0]], d.durable[slotNames[0]]) {
		t.Error("both copies were touched although the first was not good")
	}
}

package crash

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestReadPstore(t *testing.T) {
	ours := sample().Encode()
	h, err := ReadPstore(fstest.MapFS{
		// efi_pstore: parts in files of their own, the newest is part 1.
		"dmesg-efi_pstore-171234567802001": {Data: []byte("Panic#1 Part2\n<6>[    1.000000] Command line: quiet reveille.node=c2VjcmV0\n<4>[    2.000000] sysrq: Trigger a crash\n")},
		"dmesg-efi_pstore-171234567801001": {Data: []byte("Panic#1 Part1\n<0>[    2.100000] Kernel panic - not syncing: sysrq triggered crash\n<4>[    2.200000] CPU: 0 PID: 1")},
		"dmesg-ramoops-0":                  {Data: []byte("Oops#2 Part1\n<1>[    9.000000] BUG: kernel NULL pointer dereference, address: 0\n<4>[    9.000001] Oops: 0002 [#1] SMP\n")},
		"dmesg-ramoops-1.enc.z":            {Data: []byte{0x1f, 0xff, 0}},
		"console-ramoops-0":                {Data: []byte("not looked at")},
		"pmsg-ramoops-0":                   {Data: append(append([]byte("the end of a cut "+magic), ours...), ours[:100]...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, st := range h.Records {
		reasons = append(reasons, st.Line())
		if bytes.Contains(st.Raw, []byte("c2VjcmV0")) {
			t.Error("the secret is in the record")
		}
	}
	want := []string{
		"agent crash: panic: boom",
		"kernel: Oops: 0002 [#1] SMP",
		"kernel panic: sysrq triggered crash",
		"kernel dump without a known reason",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Error(diff)
	}
	if first := h.Records[0]; !bytes.Equal(first.Raw, ours) {
		t.Error("our own record is another")
	}
	if text := string(h.Records[2].Dmesg); text != "<6>[    1.000000] Command line: quiet reveille.node=[not shown]\n<4>[    2.000000] sysrq: Trigger a crash\n<0>[    2.100000] Kernel panic - not syncing: sysrq triggered crash\n<4>[    2.200000] CPU: 0 PID: 1\n" {
		t.Errorf("the parts are not in order:\n%s", text)
	}
	if len(h.Files) != 5 {
		t.Errorf("files %v", h.Files)
	}
}

func FuzzReadPstore(f *testing.F) {
	f.Add([]byte("Panic#1 Part1\n<0>[    2.100000] Kernel panic - not syncing: x"), sample().Encode())
	f.Fuzz(func(t *testing.T, dmesg, pmsg []byte) {
		h, err := ReadPstore(fstest.MapFS{"dmesg-a-0": {Data: dmesg}, "dmesg-a-1": {Data: pmsg}, "pmsg-a-0": {Data: pmsg}})
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range h.Records {
			if len(st.Raw) > MaxRecord || st.ID != ID(st.Raw) {
				t.Errorf("%d bytes, id %s", len(st.Raw), st.ID)
			}
		}
	})
}

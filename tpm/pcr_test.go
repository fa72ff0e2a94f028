package tpm

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func filled(index int, b byte) PCR {
	return PCR{index, [32]byte(bytes.Repeat([]byte{b}, 32))}
}

func TestBinding(t *testing.T) {
	for _, test := range []struct {
		name string
		pcrs PCRs
		want string
	}{
		{"UEFI with stub", PCRs{filled(4, 1), filled(7, 2), filled(11, 3), filled(12, 4)}, "PCRs 4,7,11,12 (fragile)"},
		{"no command line measured", PCRs{filled(4, 1), filled(7, 2), filled(11, 0), filled(12, 0)}, "PCRs 4,7,11 (fragile)"},
		{"no measured boot", PCRs{filled(4, 0), filled(7, 0), filled(11, 0), filled(12, 0)}, "PCR 11 only (no measured boot), fragile"},
		{"all ones are no measurement", PCRs{filled(4, 0xFF), filled(7, 0xFF), filled(11, 0), filled(12, 0xFF)}, "PCR 11 only (no measured boot), fragile"},
		{"separators only", PCRs{{4, separatorOnly}, {7, separatorOnly}, filled(11, 0), filled(12, 0)}, "PCRs 4,7,11 (fragile; 4,7 hold no measurement)"},
		{"separator in one", PCRs{filled(4, 1), {7, separatorOnly}, filled(11, 0)}, "PCRs 4,7,11 (fragile; 7 hold no measurement)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.pcrs.Binding(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDiffNamesWhatChanged(t *testing.T) {
	was := PCRs{filled(4, 1), filled(7, 0x3c), filled(11, 0)}
	now := PCRs{filled(4, 1), filled(7, 0x90)}
	want := []string{"PCR 7 (sealed 3c3c3c3c.., now 90909090..)", "PCR 11 (sealed 00000000.., now unread)"}
	if got := was.diff(now); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPCRJSON(t *testing.T) {
	in := PCRs{filled(7, 0xAB)}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out PCRs
	if err := json.Unmarshal(b, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("got %v, %v", out, err)
	}
	for _, bad := range []string{`[{"index":24,"digest":"00"}]`, `[{"index":1,"digest":"zz"}]`, `[{"index":-1}]`, `[{}]`} {
		if err := json.Unmarshal([]byte(bad), &out); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}

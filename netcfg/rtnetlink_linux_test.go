package netcfg

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// reply is one message as the kernel sends it.
func reply(seq uint32, typ, flags uint16, data []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(data)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = append(append(b, 0, 0, 0, 0), data...)
	return append(b, make([]byte, nlAlign(len(b))-len(b))...)
}

func errnoData(errno unix.Errno, rest ...byte) []byte {
	return append(binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno))), rest...)
}

func TestAnswer(t *testing.T) {
	explained := attrs{b: errnoData(unix.EBUSY, make([]byte, unix.SizeofNlMsghdr)...)}
	explained.Uint32(unix.NLMSGERR_ATTR_OFFS, 1)
	explained.String(unix.NLMSGERR_ATTR_MSG, "Device is up")
	for _, tt := range []struct {
		name  string
		got   []byte
		heard string // the data of what was passed on
		done  bool
		errs  error
		text  string
	}{
		{"acknowledged", reply(7, unix.NLMSG_ERROR, unix.NLM_F_CAPPED, errnoData(0, make([]byte, 16)...)), "", true, nil, ""},
		{"refused", reply(7, unix.NLMSG_ERROR, 0, errnoData(unix.EEXIST, make([]byte, 16)...)), "", true, unix.EEXIST, "file exists"},
		{"refused with a reason", reply(7, unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS|unix.NLM_F_CAPPED, explained.b), "", true, unix.EBUSY, "device or resource busy (Device is up)"},
		{"late answer to another", reply(6, unix.NLMSG_ERROR, 0, errnoData(unix.EEXIST, make([]byte, 16)...)), "", false, nil, ""},
		{"part of a list", slices.Concat(reply(7, unix.RTM_NEWADDR, unix.NLM_F_MULTI, []byte("a")), reply(7, unix.RTM_NEWADDR, unix.NLM_F_MULTI, []byte("bc"))), "a bc", false, nil, ""},
		{"end of a list", slices.Concat(reply(7, unix.RTM_NEWADDR, unix.NLM_F_MULTI, []byte("a")), reply(7, unix.NLMSG_DONE, unix.NLM_F_MULTI, errnoData(0))), "a \x00\x00\x00\x00", true, nil, ""},
		{"list that failed", reply(7, unix.NLMSG_DONE, unix.NLM_F_MULTI, errnoData(unix.EINVAL)), string(errnoData(unix.EINVAL)), true, unix.EINVAL, "invalid argument"},
		{"cut short", reply(7, unix.RTM_NEWADDR, 0, []byte("abcdef"))[:20], "", false, errShort, ""},
		{"no errno", reply(7, unix.NLMSG_ERROR, 0, nil), "", true, errShort, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var heard []string
			done, err := answer(tt.got, 7, func(m message) { heard = append(heard, string(m.data)) })
			if got := strings.Join(heard, " "); got != tt.heard || done != tt.done || !errors.Is(err, tt.errs) {
				t.Errorf("heard %q, done %t, %v", got, done, err)
			}
			if tt.text != "" && err.Error() != tt.text {
				t.Errorf("%q, want %q", err, tt.text)
			}
		})
	}
}

// FuzzAnswer: whatever comes, what is passed on lies within it.
func FuzzAnswer(f *testing.F) {
	f.Add(reply(7, unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS|unix.NLM_F_CAPPED, errnoData(unix.EBUSY, make([]byte, 24)...)))
	f.Add(slices.Concat(reply(7, unix.RTM_NEWADDR, unix.NLM_F_MULTI, []byte("abc")), reply(7, unix.NLMSG_DONE, 0, errnoData(0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		heard := 0
		_, err := answer(b, 7, func(m message) { heard += unix.SizeofNlMsghdr + len(m.data) })
		if heard > len(b) {
			t.Errorf("%d bytes of %d", heard, len(b))
		}
		if err != nil {
			_ = err.Error()
		}
	})
}

// After a list that could not be understood the socket is as good as before.
func TestKernelListGoesOn(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	for i := range 300 { // several datagrams
		if err := l.nl.write(bg, unix.RTM_NEWADDR, unix.NLM_F_CREATE, ifAddr(net4("10.9.0.1/32"), 1), func(a *attrs) {
			a.Bytes(unix.IFA_LOCAL, []byte{10, 9, byte(i / 250), byte(i % 250)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	header := make([]byte, unix.SizeofIfAddrmsg)
	if _, err := l.nl.dump(bg, unix.RTM_GETADDR, header, func([]byte) error { return errShort }); !errors.Is(err, errShort) {
		t.Fatal(err)
	}
	n := 0
	if _, err := l.nl.dump(bg, unix.RTM_GETADDR, header, func([]byte) error { n++; return nil }); err != nil || n < 300 {
		t.Errorf("%d addresses, %v", n, err)
	}
}

func TestAttributes(t *testing.T) {
	a := attrs{b: []byte{1, 2, 3, 4}}
	a.Uint8(1, 0xfe)
	a.Nested(2, func(in *attrs) error {
		in.String(3, "eth0")
		in.Uint16(4, 0xfffe)
		return nil
	})
	a.Bytes(5, []byte{1, 2, 3})
	a.Uint32(6, 0xfffffffe)
	var got []any
	err := attributes(a.b, 4, func(at attribute) {
		switch at.Type {
		case 2:
			at.nested(func(in attribute) {
				if in.Type == 3 {
					got = append(got, in.text())
				} else {
					got = append(got, in.number())
				}
			})
		case 5:
			got = append(got, len(at.data))
		default:
			got = append(got, at.number())
		}
	})
	if want := []any{0xfe, "eth0", 0xfffe, 3, 0xfffffffe}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if a.Nested(7, func(*attrs) error { return errShort }); !errors.Is(a.err, errShort) {
		t.Error("what could not be encoded was forgotten")
	}
}

// What is longer than what holds it, at any depth, is an error and no part of a
// list.
func TestAttributesCutShort(t *testing.T) {
	a := attrs{}
	a.Nested(2, func(in *attrs) error { in.Uint32(3, 7); return nil })
	inner := slices.Clone(a.b)
	inner[attrHeader] = 200
	for name, b := range map[string][]byte{"outer": a.b[:len(a.b)-1], "inner": inner} {
		if err := attributes(b, 0, func(at attribute) { at.nested(func(in attribute) { in.number() }) }); !errors.Is(err, errAttribute) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := attributes(nil, 4, nil); !errors.Is(err, errShort) {
		t.Error(err)
	}
}

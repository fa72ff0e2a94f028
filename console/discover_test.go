package console

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"reveille/internal/synctest"
)

// machine is a root with the given ttys; "ttyS1=0" has no UART.
func machine(cmdline, consoles string, ttys ...string) fstest.MapFS {
	m := fstest.MapFS{
		"proc/cmdline":           {Data: []byte(cmdline + "\n")},
		"proc/consoles":          {Data: []byte(consoles)},
		"sys/class/tty/tty/dev":  {Data: []byte("5:0\n")},
		"sys/class/tty/tty0/dev": {Data: []byte("4:0\n")},
	}
	for _, tty := range ttys {
		name, kind, _ := strings.Cut(tty, "=")
		m["sys/class/tty/"+name+"/dev"] = &fstest.MapFile{Data: []byte("4:64\n")}
		if kind != "" {
			m["sys/class/tty/"+name+"/type"] = &fstest.MapFile{Data: []byte(kind + "\n")}
		}
	}
	return m
}

func spcr(space byte, addr uint64, baud byte) []byte {
	b := make([]byte, spcrMin)
	copy(b, "SPCR")
	b[4] = spcrMin
	b[spcrSpaceID], b[spcrBaud] = space, baud
	binary.LittleEndian.PutUint64(b[spcrAddress:], addr)
	for _, c := range b[:9] {
		b[9] -= c
	}
	for _, c := range b[10:] {
		b[9] -= c
	}
	return b
}

func show(specs []Spec) string {
	var out []string
	for _, s := range specs {
		out = append(out, fmt.Sprintf("%s %s %d %s", s.Name, s.Kind, s.Baud, strings.Join(s.Found, "+")))
	}
	return strings.Join(out, "\n")
}

func TestDiscover(t *testing.T) {
	withSPCR := machine("quiet", "", "ttyS0=4", "ttyS1=4")
	withSPCR["sys/firmware/acpi/tables/SPCR"] = &fstest.MapFile{Data: spcr(1, 0x2f8, 7)}
	withSPCR["sys/class/tty/ttyS1/port"] = &fstest.MapFile{Data: []byte("0x2F8\n")}
	byAddress := machine("console=uart8250,io,0x3f8,9600n8", "ttyS0  -W- (EC p a) 4:64\n", "ttyS0=4")
	byAddress["sys/class/tty/ttyS0/port"] = &fstest.MapFile{Data: []byte("0x3F8\n")}
	bare := machine("console=ttyS0", "")
	delete(bare, "sys/class/tty/tty/dev")
	tests := []struct {
		name string
		root fs.FS
		want string
	}{
		{"two serial ports and a screen", machine("console=tty0 console=ttyS1 console=ttyS0,115200n8", "ttyS0 -W- (EC p a) 4:64\ntty0 -WU (E p) 4:1\n", "ttyS0=4", "ttyS1=4"),
			"tty0 screen 0 cmdline+consoles\nttyS1 serial 0 cmdline\nttyS0 serial 115200 cmdline+consoles"},
		{"no UART", machine("console=ttyS0 console=ttyS1 console=ttyS9 console=hvc0 console=null console=", "", "ttyS0=4", "ttyS1=0", "hvc0"),
			"ttyS0 serial 0 cmdline\nhvc0 hypervisor 0 cmdline"},
		{"SPCR", withSPCR, "ttyS1 serial 115200 SPCR"},
		{"by address", byAddress, "ttyS0 serial 9600 cmdline+consoles"},
		{"override", machine("console=ttyS0 reveille.console=ttyS1,9600;-ttyS0;ttyS2", "", "ttyS0=4", "ttyS1=4", "ttyS2=4"),
			"ttyS1 serial 9600 reveille.console\nttyS2 serial 0 reveille.console"},
		{"quotes and init's own words", machine(`x="a console=ttyS1" console=ttyS0 -- console=ttyS2`, "", "ttyS0=4", "ttyS1=4", "ttyS2=4"),
			"ttyS0 serial 0 cmdline"},
		{"no sys", bare, "ttyS0 serial 0 cmdline"},
		{"path tricks", machine("console=../../etc/passwd console=ttyS0x console=/dev/ttyS0", "", "ttyS0=4"), "ttyS0 serial 0 cmdline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := Discover(t.Context(), tt.root)
			if got := show(found.Specs); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s\nnotes %q", got, tt.want, found.Notes)
			}
		})
	}
}

// hangingFS never answers for some files, as a starved console lock does.
type hangingFS struct {
	fs.FS
	hang    []string
	release chan struct{}
}

func (h hangingFS) Open(name string) (fs.File, error) {
	if name == "sys/class/tty/console/active" {
		panic("reads the file that takes the console lock")
	}
	for _, p := range h.hang {
		if strings.HasPrefix(name, p) {
			<-h.release
		}
	}
	return h.FS.Open(name)
}

func TestDiscoverDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := hangingFS{FS: machine("console=ttyS0 console=ttyS1", "", "ttyS0=4", "ttyS1=4"),
			hang: []string{"proc/consoles", "sys/class/tty/ttyS1", "sys/firmware"}, release: make(chan struct{})}
		defer close(root.release)
		began := time.Now()
		found := Discover(t.Context(), root)
		if took := time.Since(began); took > discoverWithin {
			t.Errorf("took %v", took)
		}
		if len(found.Specs) != 2 || len(found.Notes) < 2 {
			t.Errorf("specs %s, notes %q", show(found.Specs), found.Notes)
		}
	})
}

// A console whose driver is a module, and one whose UART is plugged in later.
func TestAbsentConsolesAreKeptInMind(t *testing.T) {
	found := Discover(t.Context(), machine("console=hvc0 console=ttyS4 console=ttyS0", "", "ttyS0=4", "ttyS4=0"))
	if got := show(found.Absent); got != "hvc0 hypervisor 0 cmdline\nttyS4 serial 0 cmdline" || len(found.Specs) != 1 {
		t.Fatalf("absent %s, there %s", got, show(found.Specs))
	}
	later := machine("", "", "ttyS0=4", "ttyS4=0", "hvc0")
	for i, want := range []bool{true, false} {
		if got := Present(t.Context(), later, found.Absent[i]); got != want {
			t.Errorf("%s present: %t", found.Absent[i].Name, got)
		}
	}
}

func FuzzDiscover(f *testing.F) {
	f.Add("console=ttyS0,115200n8 console=uart,io,0x3f8 reveille.console=ttyS1;-ttyS0", "ttyS0 -W- (EC) 4:64\n")
	f.Add(`a="b console=x -- "`, "")
	f.Fuzz(func(t *testing.T, cmdline, consoles string) {
		KernelThreshold(cmdline)
		specs := Discover(t.Context(), machine(cmdline, consoles, "ttyS0=4", "ttyS1=4", "hvc0")).Specs
		if len(specs) > maxConsoles {
			t.Fatalf("%d consoles", len(specs))
		}
		names := map[string]bool{}
		for _, s := range specs {
			if names[s.Name] || !slices.Contains([]string{"ttyS0", "ttyS1", "hvc0", "tty0"}, s.Name) {
				t.Fatalf("console %+v", s)
			}
			names[s.Name] = true
		}
	})
}

func FuzzParseSPCR(f *testing.F) {
	f.Add(spcr(1, 0x3f8, 7))
	f.Add(spcr(0, 0xfedc9000, 3))
	f.Add([]byte("SPCR\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parseSPCR(b); err == nil && p.addr == 0 {
			t.Fatalf("%+v", p)
		}
	})
}

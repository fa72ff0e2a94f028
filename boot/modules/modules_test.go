package modules

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// fakeKernel has devices that appear when a module is there, and modules that
// do not load.
type fakeKernel struct {
	inserted []string
	present  []string
	brings   map[string][]string // path to modaliases
	refuses  map[string]error
}

func (k *fakeKernel) insert(path, options string) error {
	if err := k.refuses[path]; err != nil {
		return err
	}
	k.inserted = append(k.inserted, strings.TrimSpace(path+" "+options))
	k.present = append(k.present, k.brings[path]...)
	return nil
}

func (k *fakeKernel) modaliases() ([]string, error) { return k.present, nil }

const devices = `reveille modules 1
builtin ext4
module pci_bus pci.ko
alias pci_bus pci:1
module nic nic.ko lib
alias nic virtio:1
module lib lib.ko
module broken broken.ko
alias broken pci:2
module disk disk.ko
alias disk pci:3
module bonding bonding.ko
alias bonding rtnl-link-bond
module vfat vfat.ko
module nls_cp437 nls_cp437.ko
module nls_ascii nls_ascii.ko
`

func newFake(t *testing.T) (*fakeKernel, *Loader, *bytes.Buffer) {
	k := &fakeKernel{
		present: []string{"pci:1", "pci:2", "pci:3", "pci:4"},
		brings:  map[string][]string{"pci.ko": {"virtio:1"}},
		refuses: map[string]error{"broken.ko": unix.ENODEV},
	}
	log := &bytes.Buffer{}
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return k, newLoader(parse(t, devices), k, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: plain}))), log
}

func TestColdplug(t *testing.T) {
	k, l, log := newFake(t)
	for range 2 { // the second finds nothing to do
		if err := l.Coldplug(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	// disk is not held up by broken; the bus's device comes with the bus.
	want := []string{"pci.ko", "disk.ko", "lib.ko", "nic.ko"}
	if diff := cmp.Diff(want, k.inserted); diff != "" {
		t.Error(diff)
	}
	if got, want := log.String(), "level=WARN msg=\"load module broken: no such device, going on without it\"\n"; got != want {
		t.Errorf("log:\n%s", got)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Coldplug(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestLoad(t *testing.T) {
	k, l, _ := newFake(t)
	for _, name := range []string{"rtnl-link-bond", "bonding", "vfat", "ext4"} {
		if err := l.Load(name); err != nil {
			t.Error(err)
		}
	}
	want := []string{"bonding.ko max_bonds=0", "nls_cp437.ko", "nls_ascii.ko", "vfat.ko"}
	if diff := cmp.Diff(want, k.inserted); diff != "" {
		t.Error(diff)
	}
	if err := l.Load("broken"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("broken: %v", err)
	}
	k.refuses = nil // an explicit load is tried again
	if err := l.Load("broken"); err != nil {
		t.Error(err)
	}
	if err := l.Load("nonsense"); !errors.Is(err, ErrUnknown) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestCommandLineParameters(t *testing.T) {
	k, l, _ := newFake(t)
	l.SetCommandLine("quiet bonding.debug vfat.x=\"a b\" vfat.y=1 nls-cp437.z=2 .a=1 b.=2 memmap=1M$0x1f000000 reveille.node=YQ== panic=-1\n")
	for _, name := range []string{"bonding", "vfat"} {
		if err := l.Load(name); err != nil {
			t.Error(err)
		}
	}
	want := []string{"bonding.ko max_bonds=0 debug", "nls_cp437.ko z=2", "nls_ascii.ko", "vfat.ko x=\"a b\" y=1"}
	if diff := cmp.Diff(want, k.inserted); diff != "" {
		t.Error(diff)
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add("a.b=c d-e.f=\"g h\" .i j. k")
	f.Fuzz(func(t *testing.T, line string) {
		size := 0
		for module, params := range moduleParams(line) {
			size += len(module) + len(params)
		}
		if size > 2*len(line)+1 {
			t.Errorf("%q grows to %d bytes", line, size)
		}
	})
}

func TestParseEvent(t *testing.T) {
	got, err := ParseEvent([]byte("add@/devices/pci0000:00/net/eth0\x00ACTION=add\x00SUBSYSTEM=net\x00INTERFACE=eth0\x00MODALIAS=virtio:1\x00"))
	if err != nil {
		t.Fatal(err)
	}
	want := Event{Action: "add", DevPath: "/devices/pci0000:00/net/eth0", Subsystem: "net", Interface: "eth0", Modalias: "virtio:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "libudev\x00", "add", "@/x", "add@x"} {
		if e, err := ParseEvent([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, e)
		}
	}
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte("add@/devices/x\x00SUBSYSTEM=net\x00DEVNAME=vda\x00"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := ParseEvent(b); err == nil && (e.Action == "" || e.DevPath == "") {
			t.Errorf("%q: %+v", b, e)
		}
	})
}

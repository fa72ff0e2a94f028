//go:build guest

package main

import (
	"os"
	"strings"
	"testing"
)

// TestGuest runs in the virtual machine that guestexec made.
func TestGuest(t *testing.T) {
	if b, err := os.ReadFile("testdata/hello"); err != nil || string(b) != "hello\n" {
		t.Errorf("testdata: %q, %v", b, err)
	}
	loaded, err := os.ReadFile("/proc/modules")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"bonding", "8021q", "dummy", "virtio_net"} {
		if !strings.Contains(string(loaded), m+" ") {
			t.Errorf("%s is not loaded", m)
		}
	}
	for _, i := range []string{"lo", "eth0", "eth1"} {
		if _, err := os.Stat("/sys/class/net/" + i); err != nil {
			t.Error(err)
		}
	}
	if os.Getenv("REVEILLE_FAIL") != "" {
		t.Error("asked to fail: ünïcode arrives")
	}
}

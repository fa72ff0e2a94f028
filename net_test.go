package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runNet runs `reveille net` and returns what it printed and its exit status.
func runNet(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, diag bytes.Buffer
	cmd := netCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&diag)
	err := cmd.ExecuteContext(t.Context())
	if err == nil {
		return out.String(), diag.String(), 0
	}
	code = 1
	var e exitCode
	if errors.As(err, &e) {
		code = e.code
	}
	return out.String(), err.Error(), code
}

func writeDoc(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "n.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNetCheck(t *testing.T) {
	for _, c := range []struct {
		doc, says string
		code      int
	}{
		{"version: 2\nethernets: {eth0: {addresses: [10.0.0.1/24]}}\n", "", 0},
		{"version: 2\nethernets:\n  eth0: {adresses: []}\n", `n.yaml:3:10: ethernets.eth0.adresses: unknown key; did you mean "addresses"?`, 2},
		{"version: 2\nethernets:\n  eth0: {emit-lldp: true}\n", "n.yaml:3:10: ethernets.eth0.emit-lldp: is valid netplan that we do not support yet", 3},
	} {
		_, says, code := runNet(t, "check", writeDoc(t, c.doc))
		if code != c.code || !strings.Contains(says, c.says) {
			t.Errorf("%s: exit %d, %s", c.doc, code, says)
		}
	}
}

// Several documents: every problem of each, and the gravest exit status.
func TestNetCheckMany(t *testing.T) {
	good := writeDoc(t, "version: 2\nethernets: {eth0: {}}\n")
	unsupported := writeDoc(t, "version: 2\nethernets: {eth0: {emit-lldp: true}}\nwifis: {}\n")
	invalid := writeDoc(t, "version: 2\nethernets: {eth0: {addresses: [x]}}\nwifis: {}\n")
	for _, c := range []struct {
		args      []string
		out, says string
		code      int
	}{
		{[]string{good, good}, "", "", 0},
		{[]string{unsupported, good}, "", "ethernets.eth0.emit-lldp: is valid", 3},
		{[]string{unsupported, invalid}, "", "ethernets.eth0.addresses[0]: wants an address", 2},
		{[]string{good, invalid + ".gone"}, "", "no such file", 1},
		{[]string{"--table", good, unsupported, invalid}, "| n.yaml | plans |\n| n.yaml | unsupported: emit-lldp, wifis |\n| n.yaml | invalid: addresses |\n", "2 documents do not plan", 2},
	} {
		out, says, code := runNet(t, append([]string{"check"}, c.args...)...)
		if out != c.out || code != c.code || !strings.Contains(says, c.says) {
			t.Errorf("%v: exit %d, %q, %q", c.args, code, out, says)
		}
	}
}

// What observe prints, plan reads: the same plan as from the machine itself.
func TestNetPlanState(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace (run as root): %v", err)
	}
	state, diag, code := runNet(t, "observe", "--resolv-conf", "")
	if code != 0 || !strings.Contains(state, "name: lo") {
		t.Fatalf("observe: exit %d, %q, %q", code, state, diag)
	}
	file := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(file, []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := writeDoc(t, "version: 2\nethernets:\n  lo: {match: {name: lo}, addresses: [192.0.2.1/32]}\n")
	here, _, _ := runNet(t, "plan", "--resolv-conf", "", doc)
	saved, diag, code := runNet(t, "plan", "--state", file, doc)
	if code != 0 || saved != here || saved == "" {
		t.Errorf("plan --state: exit %d, %q (here %q), %q", code, saved, here, diag)
	}
	old := "links: [{index: 1, name: lo, up: true, mtu: 65536}]\naddresses: [{link: 1, prefix: 192.0.2.1/24}]\n"
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	const why = "delete address 192.0.2.1/24 dev lo  # shall be 192.0.2.1/32\nadd address 192.0.2.1/32 dev lo\n"
	if got, diag, code := runNet(t, "plan", "--why", "--state", file, doc); code != 0 || got != why {
		t.Errorf("plan --why: exit %d, %q, %q", code, got, diag)
	}
	if err := os.WriteFile(file, []byte("links: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, diag, code := runNet(t, "plan", "--state", file, doc); code != 1 || !strings.Contains(diag, "read network state") {
		t.Errorf("a broken state: exit %d, %q", code, diag)
	}
}

// In an empty network namespace: the loopback is all there is to configure.
func TestNetPlanAndApply(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace (run as root): %v", err)
	}
	doc := writeDoc(t, "version: 2\nethernets:\n  lo: {match: {name: lo}, addresses: [192.0.2.1/32]}\n  eth7: {}\n")
	ops := "bring lo up\nadd address 192.0.2.1/32 dev lo\n"
	for _, step := range []struct{ command, want string }{{"plan", ops}, {"apply", ops}, {"apply", "converged\n"}, {"plan", "converged\n"}} {
		out, diag, code := runNet(t, step.command, "--resolv-conf", "", doc)
		if code != 0 || out != step.want || !strings.Contains(diag, "waiting for eth7: no interface named eth7") {
			t.Errorf("%s: exit %d, %q, %q", step.command, code, out, diag)
		}
	}
}

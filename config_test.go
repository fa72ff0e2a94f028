package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheck(t *testing.T) {
	const right = `version: 1
name: n1
cluster:
  endpoints: ["10.0.2.2:7443"]
  ca: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
network:
  version: 2
  ethernets:
    eth0: {addresses: [10.0.2.15/24]}
`
	for _, tc := range []struct {
		name, text string
		code       int
		out        string // after FILE
	}{
		{"right", right, 0, ""},
		{"invalid", right + "tmp: x\n", 2, ":10:1: tmp: unknown key; did you mean \"tpm\"?\n"},
		{"unsupported", strings.Replace(right, "addresses: [10.0.2.15/24]", "emit-lldp: true", 1), 3,
			":9:12: network.ethernets.eth0.emit-lldp: is valid netplan that we do not support yet\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "node.yaml")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := configCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetOut(&out)
			cmd.SetArgs([]string{"check", file})
			err := cmd.Execute()
			var e exitCode
			if errors.As(err, &e); e.code != tc.code || (err != nil) != (tc.code != 0) {
				t.Errorf("exit code %d, %v, want %d", e.code, err, tc.code)
			}
			if got := strings.ReplaceAll(out.String(), file, ""); got != tc.out {
				t.Errorf("got  %q\nwant %q", got, tc.out)
			}
		})
	}
	cmd := configCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"check", "/nonexistent"})
	var e exitCode
	if err := cmd.Execute(); err == nil || errors.As(err, &e) {
		t.Errorf("unreadable file: %v", err)
	}
}

package bench

import (
	"fmt"
	"os"
	"path/filepath"
)

// The firmware of Debian's package ovmf, without secure boot.
const (
	ovmfCode      = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVariables = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// variables is the flash in which the firmware keeps its variables.
func (n *Node) variables() string { return filepath.Join(n.dir, "variables.fd") }

// blankVariables puts a new flash in.
func (n *Node) blankVariables() error {
	blank, err := os.ReadFile(ovmfVariables)
	if err != nil {
		return fmt.Errorf("make firmware variables (package ovmf has them): %w", err)
	}
	return os.WriteFile(n.variables(), blank, 0o600)
}

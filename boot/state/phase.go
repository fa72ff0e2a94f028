package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"reveille/tpm"
)

// EndPhase tells the TPM to open the config no more in this boot, so that no
// service can read it. It does nothing for a plain config, or when done before.
func (v *Vault) EndPhase(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.info.Sealed:
		return nil
	case v.dev == nil: // after Resume only: sealed, and the TPM is gone since
		return fmt.Errorf("end config phase: %w", v.why)
	case v.dev.PhaseOver():
		return nil
	}
	return v.dev.ExtendPhase(ctx, tpm.PhaseOpened)
}

// keptVault crosses an agent's restart.
type keptVault struct {
	Config wireConfig `json:"config"`
	Info   Info       `json:"info"`
	PCRs   tpm.PCRs   `json:"pcrs,omitempty"`
}

// Keep returns what a restarted agent needs to go on in this boot, for after
// EndPhase the TPM opens nothing again. It holds the private key in the clear:
// it belongs into memory that init keeps, and into no file.
func (v *Vault) Keep() (Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.config.Phase == "" {
		return nil, errors.New("keep config: none was loaded")
	}
	k := keptVault{Config: wire(v.config), Info: v.info}
	k.Info.Warnings = nil // said once
	if v.dev != nil {
		k.PCRs = v.dev.Snapshot()
	}
	b, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("keep config: %w", err)
	}
	return b, nil
}

// Resume takes over what Keep returned in the same boot, instead of Load.
func (v *Vault) Resume(kept []byte) (Config, Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var k keptVault
	if err := json.Unmarshal(kept, &k); err != nil {
		return Config{}, Info{}, fmt.Errorf("resume config: %w", err)
	}
	c := k.Config.config()
	if err := c.check(); err != nil {
		return Config{}, Info{}, fmt.Errorf("resume config: %w", err)
	}
	if v.dev != nil && k.PCRs != nil {
		v.dev.Resume(k.PCRs)
	}
	v.known, v.last, v.config, v.info = true, k.Info.Generation, c, k.Info
	if stored, err := v.slots.Read(); err == nil { // a save that failed used up its number
		v.last = max(v.last, stored.Envelope.Header.Generation)
	}
	return v.config, v.info, nil
}

package state

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"reveille/tpm"
)

// Info tells how the config is kept.
type Info struct {
	Generation uint64   `json:"generation"` // counts the writes; zero: nothing stored
	Sealed     bool     `json:"sealed"`
	Mode       tpm.Mode `json:"mode"`    // as stored
	Binding    string   `json:"binding"` // what the seal is bound to, in words; says so when it is none
	// Warnings are worth a log line each, and say what was done about it.
	Warnings []string `json:"warnings,omitempty"`
}

// Vault is the node's config on the state partition. Its methods may be called
// concurrently, and again after a failure.
type Vault struct {
	slots Slots
	dev   *tpm.TPM
	why   error
	mode  tpm.Mode

	mu     sync.Mutex
	known  bool   // Load or Resume told what is stored
	last   uint64 // the highest generation that a copy may hold
	config Config // as stored; its Phase is empty when there is none
	info   Info
}

// newVault keeps the config in a folder; see Partition.Vault.
func newVault(f folder, dev *tpm.TPM, why error, mode tpm.Mode) *Vault {
	if dev == nil && why == nil {
		why = tpm.Missing
	}
	return &Vault{slots: Slots{f}, dev: dev, why: why, mode: mode}
}

// Load reads and opens the config. Only an error that is tpm.Absent means that
// this node was never here; every other outcome stops the boot and says why.
// After a success further calls return the same config without the TPM.
func (v *Vault) Load(ctx context.Context) (Config, Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.config.Phase != "" {
		return v.config, v.info, nil
	}
	stored, err := v.slots.Read()
	v.known = errors.Is(err, tpm.Absent)
	if err != nil {
		return Config{}, Info{Warnings: stored.Warnings}, fmt.Errorf("load config: %w", err)
	}
	config, info, err := v.open(ctx, stored.Envelope)
	info.Warnings = append(stored.Warnings, info.Warnings...)
	if err != nil {
		return Config{}, info, fmt.Errorf("load config generation %d: %w", stored.Envelope.Header.Generation, err)
	}
	info.Warnings = append(info.Warnings, v.repair(stored)...)
	v.known, v.last, v.config, v.info = true, info.Generation, config, info
	return config, info, nil
}

// repair makes both copies hold what was just opened. A failure costs only the
// second copy, so it is a warning.
func (v *Vault) repair(s Stored) []string {
	if s.Whole {
		return nil
	}
	if err := v.slots.Write(s.Raw); err != nil {
		return []string{fmt.Sprintf("%v: the config has one copy only", err)}
	}
	return []string{fmt.Sprintf("both copies of the config hold generation %d again", s.Envelope.Header.Generation)}
}

// open checks how the config is stored against the mode rules, and opens it.
func (v *Vault) open(ctx context.Context, e *tpm.Envelope) (Config, Info, error) {
	info := Info{Generation: e.Header.Generation, Mode: e.Header.Mode, Sealed: e.Kind == tpm.Sealed, Binding: plainBinding}
	var body []byte
	var err error
	if info.Sealed {
		if v.mode == tpm.Disabled {
			info.Warnings = append(info.Warnings, "node parameters say tpm: disabled, but the node was enrolled with its TPM: staying sealed")
		}
		body, info.Binding, err = v.unseal(ctx, e)
	} else if err = v.allowPlain(e.Header); err == nil {
		body, err = e.PlainBody()
	}
	if err != nil {
		return Config{}, info, err
	}
	config, err := decodeConfig(body)
	if err != nil {
		return Config{}, info, err
	}
	if string(config.Phase) != e.Header.Phase || (config.Phase == Enrolled && config.TPMMode != e.Header.Mode) {
		return Config{}, info, &tpm.Error{Outcome: tpm.Corrupt, Detail: "header and body disagree"}
	}
	if config.Phase == Enrolled && info.Sealed != (config.TPMMode == tpm.Required) {
		return Config{}, info, &tpm.Error{Outcome: tpm.WrongMode, Detail: fmt.Sprintf("mode %s, sealed %t", config.TPMMode, info.Sealed)}
	}
	return config, info, nil
}

const plainBinding = "nothing (plain file)"

func (v *Vault) unseal(ctx context.Context, e *tpm.Envelope) (body []byte, binding string, err error) {
	if v.dev == nil {
		return nil, "", fmt.Errorf("config is sealed: %w", v.why)
	}
	err = &tpm.Error{Outcome: tpm.Newer, Detail: "no key slot for a TPM 2.0"}
	for _, slot := range e.Header.Slots {
		var key []byte
		if key, err = v.dev.Unseal(ctx, slot); err != nil {
			continue
		}
		body, err := e.Open(key)
		return body, slot.PCRs.Binding(), err
	}
	return nil, "", err
}

// Save writes the config as the next generation, to both copies. When it
// returns without error, every later Load finds this config or a later one,
// wherever the power is cut. It needs a Load before.
func (v *Vault) Save(ctx context.Context, c Config) (Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	info, err := v.save(ctx, c)
	if err != nil {
		return Info{}, fmt.Errorf("save config: %w", err)
	}
	return info, nil
}

func (v *Vault) save(ctx context.Context, c Config) (Info, error) {
	if err := v.allowSave(c); err != nil {
		return Info{}, err
	}
	body, err := c.encode()
	if err != nil {
		return Info{}, err
	}
	mode, sealed, err := v.saveMode(c)
	if err != nil {
		return Info{}, err
	}
	h := tpm.Header{Generation: v.last + 1, Cluster: c.ClusterID, Node: c.NodeName, Mode: mode, Phase: string(c.Phase)}
	info := Info{Generation: h.Generation, Sealed: sealed, Mode: mode, Binding: plainBinding}
	var raw []byte
	if sealed {
		info.Binding = v.dev.Binding()
		raw, err = v.seal(ctx, h, body)
	} else {
		raw, err = tpm.Encode(tpm.Plain, h, body)
	}
	if err != nil {
		return Info{}, err
	}
	// Even a failed write may have reached one copy: that number is used up.
	v.last = h.Generation
	if err := v.slots.Write(raw); err != nil {
		return Info{}, err
	}
	v.config, v.info = c, info
	return info, nil
}

// allowSave refuses what would lose something good.
func (v *Vault) allowSave(c Config) error {
	switch {
	case !v.known:
		return errors.New("not loaded before: what is stored would be lost")
	case v.config.Phase == Enrolled && c.Phase != Enrolled:
		return errors.New("the node is enrolled: refusing to go back")
	case v.config.Phase == Enrolled && c.TPMMode != v.config.TPMMode:
		return &tpm.Error{Outcome: tpm.WrongMode, Detail: fmt.Sprintf("enrolled as %s, asked for %s", v.config.TPMMode, c.TPMMode)}
	}
	return nil
}

// seal encrypts body under a fresh data key and seals that. As long as the TPM
// still allows it in this boot, it is unsealed once before anything is written:
// a config that cannot be opened never replaces one that can.
func (v *Vault) seal(ctx context.Context, h tpm.Header, body []byte) ([]byte, error) {
	key := make([]byte, 32) // AES-256
	rand.Read(key)
	slot, err := v.dev.Seal(ctx, key)
	if err != nil {
		return nil, err
	}
	h.PCRs, h.Slots = v.dev.Snapshot(), []tpm.Slot{slot}
	raw, err := tpm.EncodeSealed(h, key, body)
	if err != nil || v.dev.PhaseOver() {
		return raw, err
	}
	e, err := tpm.Parse(raw)
	if err != nil {
		return nil, err
	}
	opened, _, err := v.unseal(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("try what was sealed: %w", err)
	}
	if !bytes.Equal(opened, body) {
		return nil, errors.New("try what was sealed: it opens to something else")
	}
	return raw, nil
}

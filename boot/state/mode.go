package state

import (
	"fmt"

	"reveille/tpm"
)

// saveMode decides between sealed and plain: the cluster's word once there is
// one, before that the node parameters'.
func (v *Vault) saveMode(c Config) (mode tpm.Mode, sealed bool, err error) {
	mode = v.mode
	if c.Phase == Enrolled {
		mode = c.TPMMode
	}
	switch {
	case mode == tpm.Disabled:
		return mode, false, nil
	case v.dev != nil:
		return mode, true, nil
	case mode == tpm.Preferred && withoutTPM(v.why):
		return mode, false, nil
	}
	return mode, false, fmt.Errorf("tpm is %s: %w", mode, v.why)
}

// allowPlain refuses a plain file where the node should have a sealed one:
// whoever can write the disk could otherwise replace the node's identity.
func (v *Vault) allowPlain(h tpm.Header) error {
	enrolled := h.Phase == string(Enrolled)
	switch {
	case v.mode == tpm.Required:
		return &tpm.Error{Outcome: tpm.WrongMode, Detail: "plain file, and node parameters say tpm: required"}
	case !enrolled || v.mode == tpm.Disabled:
		return nil
	case v.dev != nil:
		return &tpm.Error{Outcome: tpm.WrongMode, Detail: "plain file on a machine with a TPM, and node parameters say tpm: preferred"}
	case !withoutTPM(v.why):
		return v.why
	}
	return nil
}

// withoutTPM tells whether the machine has no TPM that could seal. A TPM that
// fails is not that: what fails today may work tomorrow, and no mode may follow
// from it.
func withoutTPM(why error) bool {
	switch tpm.OutcomeOf(why) {
	case tpm.Missing, tpm.Version12, tpm.NoSHA256:
		return true
	}
	return false
}

package tpm

import (
	"context"
	"time"
)

// SetRedial gives a TPM made by New what Open gives it.
func (t *TPM) SetRedial(dial func() Transport) {
	t.redial = func(context.Context) (Transport, error) { return dial(), nil }
}

// SetTimeout changes the deadline of one command, for a TPM that then stops.
func (t *TPM) SetTimeout(d time.Duration) { t.timeout = d }

// Extended is what a register holds after a phase.
func Extended(register [32]byte, phase string) [32]byte { return extend(register, phaseDigest(phase)) }

package tpm

import (
	"errors"
	"fmt"
	"strings"
)

// Outcome classifies why a sealed config could not be opened or written. Each
// has its own message and remedy, and only Absent may lead to enrolment: no
// other outcome may ever be taken for "a fresh node".
//
// An Outcome is an error, so errors.Is(err, tpm.Absent) asks for one.
type Outcome int

const (
	// Absent: nothing was ever stored here.
	Absent Outcome = iota + 1
	// Unreadable: the disk or file system refuses; what is stored is unknown.
	Unreadable
	// Corrupt: something is stored, and no copy of it is whole.
	Corrupt
	// Newer: written by a later release than this one.
	Newer
	// Foreign: sealed by another TPM.
	Foreign
	// Cleared: sealed by this TPM before somebody cleared it.
	Cleared
	// WrongPCRs: this TPM sealed it, for another firmware, kernel or command line.
	WrongPCRs
	// PhaseOver: already opened in this boot; the TPM refuses until the next.
	PhaseOver
	// Lockout: the TPM's dictionary-attack protection refuses everybody.
	Lockout
	// Missing: the machine has no TPM.
	Missing
	// Version12: the machine has a TPM of the family 1.2, which cannot do this.
	Version12
	// NoSHA256: the TPM keeps no SHA-256 registers, so a policy would bind nothing.
	NoSHA256
	// Unresponsive: there is a TPM, and it does not do its work.
	Unresponsive
	// WrongMode: how the config is stored contradicts what was decided at enrolment.
	WrongMode
)

// outcomes holds what an operator reads: what it is, and what to do about it.
var outcomes = map[Outcome][2]string{
	Absent:       {"no config stored", "the node enrols with its ticket"},
	Unreadable:   {"state partition unreadable", "check the disk labelled REVEILLE; nothing was changed on it"},
	Corrupt:      {"config corrupt", "restore reveille/config.*, or remove the node and both files, then enrol with a new ticket"},
	Newer:        {"config of a newer release", "boot the release that wrote it, or a later one"},
	Foreign:      {"config sealed by another TPM", "move the disk back to its machine, or remove the node and the config, then enrol with a new ticket"},
	Cleared:      {"TPM cleared since the config was sealed", "remove the node and the config, then enrol with a new ticket"},
	WrongPCRs:    {"PCRs differ from those sealed", "boot the firmware and image that sealed it, or remove the node and the config, then enrol with a new ticket"},
	PhaseOver:    {"config already opened in this boot", "reboot the node"},
	Lockout:      {"TPM locked out", "wait as said, keep the node powered; it retries"},
	Missing:      {"no TPM found", "enable the TPM in the firmware, or set tpm: disabled before the node is enrolled"},
	Version12:    {"TPM 1.2 cannot seal", "switch the firmware to TPM 2.0, or set tpm: disabled before the node is enrolled"},
	NoSHA256:     {"TPM has no SHA-256 PCR bank", "enable the SHA-256 bank in the firmware, or set tpm: disabled before the node is enrolled"},
	Unresponsive: {"TPM does not answer", "power the machine off and on; if it stays so, update the firmware or replace the TPM"},
	WrongMode:    {"config stored against its TPM mode", "set the tpm: mode the node was enrolled with, or remove the node and the config, then enrol again"},
}

// Error is the outcome's message.
func (o Outcome) Error() string {
	if m, ok := outcomes[o]; ok {
		return m[0]
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Remedy says what an operator can do about it.
func (o Outcome) Remedy() string { return outcomes[o][1] }

// Error is an outcome with what was seen.
type Error struct {
	Outcome Outcome
	Detail  string // what was seen, without the outcome's message; may be empty
	Err     error  // the cause; may be nil
}

func (e *Error) Error() string {
	parts := []string{e.Outcome.Error()}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap makes errors.Is see both the outcome and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Outcome}
	}
	return []error{e.Outcome, e.Err}
}

// OutcomeOf returns the outcome in err's tree, or zero when it holds none.
func OutcomeOf(err error) Outcome {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Outcome
	}
	if o, ok := errors.AsType[Outcome](err); ok {
		return o
	}
	return 0
}

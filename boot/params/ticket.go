package params

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Ticket is the secret that lets a node enrol once. It refuses to be printed;
// the zero value is no ticket.
type Ticket struct{ text string }

// Set reports whether there is a ticket.
func (t Ticket) Set() bool { return t.text != "" }

// Reveal is the ticket's text, for the enrolment request and nothing else.
func (t Ticket) Reveal() string { return t.text }

// wellFormed wants visible ASCII, so that a ticket survives every way to carry
// it: YAML, a command line, a shell.
func (t Ticket) wellFormed() bool {
	for _, c := range []byte(t.text) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return t.text != "" && len(t.text) <= maxTicket
}

const hiddenTicket = "[ticket]"

// String refuses: tickets do not belong in logs.
func (t Ticket) String() string { return hiddenTicket }

// Format refuses for every verb: %#v would otherwise reach the field.
func (t Ticket) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hiddenTicket) }

// LogValue refuses.
func (t Ticket) LogValue() slog.Value { return slog.StringValue(hiddenTicket) }

// MarshalText refuses, and with it every encoder of JSON and YAML.
func (t Ticket) MarshalText() ([]byte, error) {
	return nil, errors.New("encode ticket: refused, use Reveal")
}

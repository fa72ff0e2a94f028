package params

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// maxTicket is several times the length of any ticket we make.
const maxTicket = 256

// Ticket is the secret that lets a node enrol once. It refuses to be printed;
// the zero value is no ticket.
type Ticket struct{ text string }

// Set reports whether there is a ticket.
func (t Ticket) Set() bool { return t.text != "" }

// Reveal is the ticket's text, for the enrolment request and nothing else.
func (t Ticket) Reveal() string { return t.text }

// NewTicket wants visible ASCII, so that a ticket survives every way to carry
// it: YAML, a command line, a shell. The error does not quote the text.
func NewTicket(text string) (Ticket, error) {
	ok := text != "" && len(text) <= maxTicket
	for _, c := range []byte(text) {
		ok = ok && c > ' ' && c < 0x7f
	}
	if !ok {
		return Ticket{}, errors.New("wants the text that `reveille ticket create` prints, in one line without spaces")
	}
	return Ticket{text}, nil
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

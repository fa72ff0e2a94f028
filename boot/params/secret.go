package params

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that refuses to be printed. The zero value is none.
type Secret struct{ text string }

// maxTicket is several times the length of any ticket we make.
const maxTicket = 256

// NewTicket makes the secret that lets a node enrol once of its text. It wants
// visible ASCII, so that a ticket survives every way to carry it: YAML, a
// command line, a shell. The error does not quote the text.
func NewTicket(text string) (Secret, error) {
	ok := text != "" && len(text) <= maxTicket
	for _, c := range []byte(text) {
		ok = ok && c > ' ' && c < 0x7f
	}
	if !ok {
		return Secret{}, errors.New("wants the text that `reveille ticket create` prints, in one line without spaces")
	}
	return Secret{text}, nil
}

// Set reports whether there is a secret.
func (s Secret) Set() bool { return s.text != "" }

// Reveal is the text, for its one use.
func (s Secret) Reveal() string { return s.text }

const hidden = "[secret]"

// String refuses: secrets do not belong in logs.
func (s Secret) String() string { return hidden }

// Format refuses for every verb: %#v would otherwise reach the field.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue refuses.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText refuses, and with it every encoder of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("encode secret: refused, use Reveal")
}

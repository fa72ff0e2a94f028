package service

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Secrets are texts that files are rendered with.
type Secrets []Secret

// Secret is a named text that refuses to be printed.
type Secret struct {
	Name string
	text string
}

// NewSecret names a text.
func NewSecret(name, text string) Secret { return Secret{name, text} }

// Get is the text of a secret, for the file that it belongs into.
func (s Secrets) Get(name string) (text string, ok bool) {
	for _, x := range s {
		if x.Name == name {
			return x.text, true
		}
	}
	return "", false
}

const hidden = "[secret]"

// String refuses: secrets do not belong in logs.
func (Secret) String() string { return hidden }

// Format refuses for every verb: %#v would otherwise reach the field.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue refuses.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText refuses, and with it every encoder of JSON and YAML.
func (Secret) MarshalText() ([]byte, error) { return nil, errors.New("encode secret: refused") }

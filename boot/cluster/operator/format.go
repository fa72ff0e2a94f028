package operator

import (
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// Format is the value of -o. It is a pflag.Value.
type Format string

// The formats. Table is for people and may change; the others are stable.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats is the help text of -o.
const Formats = "output format: table, json or yaml"

// Set implements pflag.Value. "text" is table, for what is no table.
func (f *Format) Set(s string) error {
	if s == "text" {
		s = string(Table)
	}
	switch v := Format(s); v {
	case Table, JSON, YAML:
		*f = v
		return nil
	}
	return fmt.Errorf("want table, json or yaml")
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Write writes a view (or a slice of views) in the format; table does it for
// people.
func (f Format) Write(w io.Writer, view any, table func(io.Writer) error) error {
	var err error
	switch f {
	case JSON:
		err = writeJSON(w, view)
	case YAML:
		err = writeYAML(w, view)
	default:
		err = table(w)
	}
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, view any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(view)
}

func writeYAML(w io.Writer, view any) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(view); err != nil {
		return err
	}
	return e.Close()
}

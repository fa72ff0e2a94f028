package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestSecretStaysOutOfEverything(t *testing.T) {
	const key = "do-not-show"
	c := Config{Phase: Enrolling, Key: Secret(key), Services: Secret(key)}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "key", c.Key)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", c, "key", c.Key)
	plainJSON, _ := json.Marshal(c)
	secretJSON, _ := json.Marshal(map[string]any{"k": c.Key})
	plainYAML, _ := yaml.Marshal(c)
	err := fmt.Errorf("with %v", c)
	all := strings.Join([]string{
		log.String(), string(plainJSON), string(secretJSON), string(plainYAML), err.Error(),
		fmt.Sprintf("%v %+v %#v %s %x %q", c, c, c, c, c, c),
		fmt.Sprintf("%v %+v %#v %s %x %q %d", c.Key, c.Key, c.Key, c.Key, c.Key, c.Key, c.Key),
	}, "\n")
	for _, form := range []string{key, fmt.Sprintf("%x", key), "ZG8tbm90LXNob3c", "100 111 45"} {
		if strings.Contains(all, form) {
			t.Errorf("the key leaks as %q:\n%s", form, all)
		}
	}
}

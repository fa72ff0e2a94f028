package service

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// keysDocument is for the reader of the project; tests hold it to the code.
const keysDocument = "../../docs/services.md"

// keyLists is every list of the parser, by the section of the document.
func keyLists() map[string][]string {
	values := make([]string, len(facts))
	for i, f := range facts {
		values[i] = "." + f
	}
	return map[string][]string{
		"document": topKeys, "services": serviceKeys, "limits": limitKeys, "files": fileKeys, "stop": stopKeys, "probes": probeKeys,
		"identity": identityKeys, "logs": logKeys, "core": coreKeys, "payloads": payloadKeys, "templates": values,
	}
}

func documentText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(keysDocument)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The document has a row for every key that the parser knows, and no other.
func TestKeysAreDocumented(t *testing.T) {
	rows := map[string][]string{}
	section := ""
	for line := range strings.Lines(documentText(t)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.HasPrefix(cells[1], " `") {
			rows[section] = append(rows[section], strings.Trim(cells[1], " `"))
		}
	}
	lists := keyLists()
	for _, section := range slices.Sorted(maps.Keys(lists)) {
		for _, key := range lists[section] {
			if !slices.Contains(rows[section], key) {
				t.Errorf("%s, ## %s: no row for %s", keysDocument, section, key)
			}
		}
		for _, key := range rows[section] {
			if !slices.Contains(lists[section], key) {
				t.Errorf("%s, ## %s: the parser has no key %s", keysDocument, section, key)
			}
		}
	}
	for _, word := range words {
		if !strings.Contains(documentText(t), word) {
			t.Errorf("%s does not name the function %s", keysDocument, word)
		}
	}
}

// The examples of the document are right.
func TestExamplesAreRight(t *testing.T) {
	examples := 0
	for i, part := range strings.Split(documentText(t), "```") {
		text, isYAML := strings.CutPrefix(part, "yaml\n")
		if i%2 == 0 || !isYAML {
			continue
		}
		examples++
		if _, err := Parse(fmt.Sprintf("example %d", examples), []byte(text), 1, Elsewhere{}); err != nil {
			t.Error(err)
		}
	}
	if examples != 3 {
		t.Errorf("%d examples", examples)
	}
}

// The golden full.yaml, which is right, has every key: one that only looks
// supported would be refused there.
func TestEveryKeyIsRead(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal(document(t, "full.yaml"), &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				used[c.Value] = true
			}
			walk(c)
		}
	}
	walk(&doc)
	for section, keys := range keyLists() {
		for _, key := range keys {
			if section != "templates" && !used[key] {
				t.Errorf("%s: %s is not in full.yaml", section, key)
			}
		}
	}
}

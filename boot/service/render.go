package service

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// Facts is what a file may know of the node that it is rendered on.
type Facts struct {
	Node    NodeFacts
	Cluster *ClusterFacts // nil before the node is enrolled
	Service ServiceFacts
	secrets Secrets
}

// NodeFacts is the node itself.
type NodeFacts struct {
	Name      string
	ID        string   // that the cluster gave it
	BootID    string   // the kernel's
	Addresses []string // preferred first, without prefix length
}

// ClusterFacts is the Reveille cluster that the node is a member of.
type ClusterFacts struct {
	ID        string
	Endpoints []string // host:port of the controllers
	CA        string   // certificate, PEM
}

// ServiceFacts is the incarnation that the file is for.
type ServiceFacts struct {
	Name        string
	Incarnation uint64
}

// Address4 is the first IPv4 address; an error when there is none yet, rather
// than a file with a hole.
func (n NodeFacts) Address4() (string, error) { return n.first(false) }

// Address6 is the first IPv6 address.
func (n NodeFacts) Address6() (string, error) { return n.first(true) }

func (n NodeFacts) first(six bool) (string, error) {
	for _, a := range n.Addresses {
		if strings.Contains(a, ":") == six {
			return a, nil
		}
	}
	return "", errors.New("the node has no such address")
}

// Secret is the text of a secret of the same document.
func (f Facts) Secret(name string) (string, error) {
	text, ok := f.secrets.Get(name)
	if !ok {
		return "", fmt.Errorf("no secret is called %s", name)
	}
	return text, nil
}

// maxFile bounds a rendered file: a kubeconfig with its certificates has some
// 10 KiB, and the document that all of a node's files come in has 1 MiB.
const maxFile = 1 << 20

var functions = template.FuncMap{
	"join":   func(sep string, list []string) string { return strings.Join(list, sep) },
	"json":   toJSON,
	"base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
}

// toJSON quotes a text for JSON, which YAML reads as well.
func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// Render is the file's content on a node. The error names the action that could
// not be done, and no secret.
func (f File) Render(facts Facts, secrets Secrets) ([]byte, error) {
	t, err := parseTemplate(f.Content)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Path, err)
	}
	facts.secrets = secrets
	var out bounded
	if err := t.Execute(&out, facts); err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Path, plainTemplateError(err))
	}
	return out.b, nil
}

func parseTemplate(content string) (*template.Template, error) {
	t, err := template.New("content").Option("missingkey=error").Funcs(functions).Parse(content)
	if err != nil {
		return nil, plainTemplateError(err)
	}
	return t, nil
}

// plainTemplateError takes off what names our code: "template: content:3:5:
// executing "content" at <.Node.Nme>: can't evaluate ...".
func plainTemplateError(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: content:")
	text = strings.Replace(text, `executing "content" `, "", 1)
	text = strings.ReplaceAll(text, "service.", "")
	return errors.New("line " + text)
}

// bounded is a file that grows no further than maxFile.
type bounded struct{ b []byte }

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > maxFile {
		return 0, fmt.Errorf("more than %d bytes come of it", maxFile)
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

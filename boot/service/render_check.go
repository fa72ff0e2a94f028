package service

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"reveille/netcfg"
)

// facts is every field of Facts that a file may use; docs/services.md lists
// them, and a test holds it to this list.
var facts = []string{
	"Node.Name", "Node.ID", "Node.BootID", "Node.Addresses", "Node.Address4", "Node.Address6",
	"Cluster.ID", "Cluster.Endpoints", "Cluster.CA", "Service.Name", "Service.Incarnation", "Secret",
}

// words are the functions that a template may call; of text/template's own,
// those that cannot make much of little.
var words = []string{"and", "base64", "eq", "ge", "gt", "index", "join", "json", "le", "len", "lt", "ne", "not", "or"}

// maxLoops is how deep loops may lie in loops: our lists are short, and so is
// the product of two.
const maxLoops = 2

// checkTemplate finds what would fail on every node: in all branches, names
// that there are not; and by rendering it once, wrong uses of those there are.
// What a check could not answer for is refused: templates in templates, loops
// over anything but our lists, names of secrets that are only known later.
func checkTemplate(content string, secrets Secrets) error {
	t, err := parseTemplate(content)
	if err != nil {
		return err
	}
	w := walk(t)
	w.knowsSecrets(secrets)
	if len(w.problems) > 0 {
		return errors.New(strings.Join(w.problems, "; "))
	}
	sample := Facts{
		Node:    NodeFacts{Name: "n1", ID: "id", BootID: "boot", Addresses: []string{"192.0.2.1", "2001:db8::1"}},
		Cluster: &ClusterFacts{ID: "c", Endpoints: []string{"192.0.2.2:7443"}, CA: "pem"},
		Service: ServiceFacts{Name: "s", Incarnation: 1}, secrets: secrets,
	}
	if err := t.Execute(&bounded{}, sample); err != nil {
		return plainTemplateError(err)
	}
	return nil
}

// secretsOf is the names of the secrets in a template.
func secretsOf(content string) []string {
	t, err := parseTemplate(content)
	if err != nil {
		return nil
	}
	return walk(t).secrets
}

// walker goes through all actions of a template.
type walker struct {
	secrets  []string
	problems []string
}

func walk(t *template.Template) *walker {
	w := &walker{}
	if len(t.Templates()) > 1 {
		w.problems = append(w.problems, "a template within the template is not supported")
	}
	if t.Tree != nil {
		w.list(t.Root, 0)
	}
	return w
}

func (w *walker) knowsSecrets(secrets Secrets) {
	for _, name := range w.secrets {
		if _, ok := secrets.Get(name); !ok {
			var names []string
			for _, s := range secrets {
				names = append(names, s.Name)
			}
			w.problems = append(w.problems, fmt.Sprintf("no secret %q is defined under secrets%s", name, netcfg.Suggest(name, names)))
		}
	}
}

func (w *walker) fail(n parse.Node, text string) {
	if text = fmt.Sprintf("%s: %s", n, text); !slices.Contains(w.problems, text) {
		w.problems = append(w.problems, text)
	}
}

func (w *walker) list(l *parse.ListNode, loops int) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			w.pipe(n.Pipe)
		case *parse.IfNode:
			w.branch(&n.BranchNode, loops)
		case *parse.RangeNode:
			w.loop(n, loops)
		case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		default:
			w.fail(n, "is not supported here")
		}
	}
}

func (w *walker) branch(b *parse.BranchNode, loops int) {
	w.pipe(b.Pipe)
	w.list(b.List, loops)
	w.list(b.ElseList, loops)
}

func (w *walker) loop(n *parse.RangeNode, loops int) {
	over := n.Pipe.Cmds[0].String()
	if list := strings.TrimPrefix(over, "$"); len(n.Pipe.Cmds) > 1 || list != ".Node.Addresses" && list != ".Cluster.Endpoints" {
		w.fail(n.Pipe, "wants a list, .Node.Addresses or .Cluster.Endpoints")
	}
	if loops == maxLoops {
		w.fail(n.Pipe, "is a loop in a loop in a loop")
	}
	w.branch(&n.BranchNode, loops+1)
}

func (w *walker) pipe(p *parse.PipeNode) {
	for _, cmd := range p.Cmds {
		for i, arg := range cmd.Args {
			switch arg := arg.(type) {
			case *parse.PipeNode:
				w.pipe(arg)
			case *parse.IdentifierNode:
				if !slices.Contains(words, arg.Ident) {
					w.fail(arg, "is no function that a file may use"+netcfg.Suggest(arg.Ident, words))
				}
			case *parse.FieldNode:
				w.field(cmd, i, arg, arg.Ident)
			case *parse.VariableNode:
				if arg.Ident[0] == "$" {
					w.field(cmd, i, arg, arg.Ident[1:])
				} else if len(arg.Ident) > 1 {
					w.fail(arg, "has no fields")
				}
			case *parse.ChainNode:
				w.fail(arg, "is not supported here")
			}
		}
	}
}

func (w *walker) field(cmd *parse.CommandNode, i int, n parse.Node, path []string) {
	name := strings.Join(path, ".")
	if !slices.Contains(facts, name) {
		w.fail(n, "is nothing that a file may use"+netcfg.Suggest(name, facts))
	}
	if name != "Secret" {
		return
	}
	if i == 0 && len(cmd.Args) == 2 {
		if literal, ok := cmd.Args[1].(*parse.StringNode); ok {
			w.secrets = append(w.secrets, literal.Text)
			return
		}
	}
	w.fail(n, `wants the secret's name behind it, as in {{.Secret "token"}}`)
}

package cluster

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/operator"
)

//go:embed page.html
var pageText string

// page is what a browser with an operator's certificate sees: the nodes and
// their services, those with trouble first. It has no form, no script and
// nothing from elsewhere: it only shows what `node list` does.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"ago": func(t *time.Time, now time.Time) string {
		if t == nil {
			return "never"
		}
		return max(now.Sub(*t), 0).Round(time.Second).String() + " ago"
	},
}).Parse(pageText))

func (o *operatorService) servePage(w http.ResponseWriter, r *http.Request) {
	resp, err := o.ListNodes(r.Context(), &clusterv1.ListNodesRequest{})
	if err == nil {
		var text bytes.Buffer
		now := time.Now().UTC()
		if err = page.Execute(&text, map[string]any{"Nodes": worstFirst(operator.NodesOf(resp)), "Now": now}); err == nil {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
			_, _ = w.Write(text.Bytes()) // who left does not read it
			return
		}
	}
	err = storeError(r.Context(), o.log, r.URL.Path, err)
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// worstFirst puts nodes, and the services of each, that are not well before the
// others.
func worstFirst(nodes []operator.Node) []operator.Node {
	for _, n := range nodes {
		slices.SortStableFunc(n.Services, func(a, b operator.Service) int { return cmp.Compare(badness(!a.Healthy), badness(!b.Healthy)) })
	}
	slices.SortStableFunc(nodes, func(a, b operator.Node) int { return cmp.Compare(badness(unwell(a)), badness(unwell(b))) })
	return nodes
}

func unwell(n operator.Node) bool {
	return n.State != "joined" || n.Reason != "" || slices.ContainsFunc(n.Services, func(s operator.Service) bool { return !s.Healthy })
}

func badness(bad bool) int {
	if bad {
		return 0
	}
	return 1
}

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/differences"
)

const intro = `<!-- Written by make generate: change the table of kinds, the catalog or the columns instead. -->

# Kinds

This page lists every kind that the apiserver serves, in the order of ` + "`libs/scheme`" + `.

- **Level** is how close a kind is to Kubernetes. *Full* kinds have Kubernetes' defaults, validation with its
  field paths and reasons, immutable fields, generations and printer columns. *Generic* kinds check metadata,
  separate spec and status, count generations and have Kubernetes' printer columns, but lack some of the
  rest. *Answered* kinds are reviews or views, and are not stored.
- **Verbs** are *all* if they are create, delete, deletecollection, get, list, patch, update and watch.
- **Columns** are what ` + "`kubectl get`" + ` prints; those after the semicolon are added by ` + "`-o wide`" + `.
- **Key** is relative to etcd's prefix.

[Another table](#not-acted-on) lists what is stored but has no effect, and the [last](#differences) what differs.

`

// write renders the page.
func write(page *bytes.Buffer, catalog *kinds.Catalog) {
	page.WriteString(intro)
	all := pod(catalog.Table()).Verbs()
	fmt.Fprintf(page, "%s\n", counts(catalog))
	last := schema.GroupVersion{}
	for _, kind := range catalog.Table().Kinds() {
		if gv := kind.GroupVersion(); gv != last {
			last = gv
			fmt.Fprintf(page, "\n## %s\n\n", gv)
			page.WriteString("| kind | resource | short | scope | verbs | subresources | level | columns | key |\n")
			page.WriteString("|---|---|---|---|---|---|---|---|---|\n")
		}
		verbs, scope := strings.Join(kind.Verbs(), " "), "cluster"
		if slices.Equal(kind.Verbs(), all) {
			verbs = "all"
		}
		if kind.Namespaced {
			scope = "namespace"
		}
		var subresources []string
		for _, s := range kind.Subresources {
			subresources = append(subresources, s.Name)
		}
		fmt.Fprintf(page, "| %s |\n", strings.Join([]string{
			kind.Kind, kind.Resource, strings.Join(kind.ShortNames, " "), scope, verbs, strings.Join(subresources, " "),
			level(kind, catalog), printedColumns(kind, catalog), key(kind),
		}, " | "))
	}
	writeIgnored(page, catalog)
	page.WriteString(differencesIntro)
	for _, d := range differences.All() {
		fmt.Fprintf(page, "| %s | %s | %s |\n", cmp.Or(strings.Join(d.Kinds, ", "), "all"), d.Text, d.Why)
	}
}

const differencesIntro = `
## Differences

In these points the apiserver's rules differ from Kubernetes' and stay so, because no user is hurt.

| kinds | what differs | why no user is hurt |
|---|---|---|
`

const ignoredIntro = `
## Not acted on

These kinds, subresources and fields are accepted and stored, but have no effect yet. A client that writes
one gets a Warning, which kubectl prints. For fields of pods, the same Warning applies to the pod templates of
workloads. **By** is the part of Kubernetes that acts on it.

| what | what does not happen | by |
|---|---|---|
`

// writeIgnored lists what nothing acts on. Fields that workload templates share are listed under
// Pod.
func writeIgnored(page *bytes.Buffer, catalog *kinds.Catalog) {
	page.WriteString(ignoredIntro)
	listed := map[string]bool{}
	for _, kind := range catalog.Table().Kinds() {
		for _, row := range kind.NotActedOn {
			what := kind.Kind
			switch {
			case row.Subresource != "":
				what = kind.Resource + "/" + row.Subresource
			case row.Field != "":
				what += " `" + row.Field + "`"
			}
			line := fmt.Sprintf("| %s | %s | %s |\n", what, row.Text, row.By)
			repeated := kind.Kind != "Pod" && row.Field != "" &&
				slices.ContainsFunc(pod(catalog.Table()).NotActedOn, func(of scheme.NotActedOn) bool { return of.Field == row.Field })
			if !repeated && !listed[line] {
				listed[line] = true
				page.WriteString(line)
			}
		}
	}
}

func pod(table *scheme.Table) *scheme.Kind {
	return table.Kind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
}

// counts sums up the levels.
func counts(catalog *kinds.Catalog) string {
	of := map[string]int{}
	for _, kind := range catalog.Table().Kinds() {
		of[level(kind, catalog)]++
	}
	return fmt.Sprintf("%d kinds are full, %d generic, %d answered.", of[string(kinds.Full)], of[string(kinds.Generic)], of[answered])
}

// answered is the level of kinds that have no level.
const answered = "answered"

func level(kind *scheme.Kind, catalog *kinds.Catalog) string {
	if s := catalog.Of(kind); s.Level != "" {
		return string(s.Level)
	}
	return answered
}

func printedColumns(kind *scheme.Kind, catalog *kinds.Catalog) string {
	if !slices.Contains(kind.Verbs(), "get") {
		return ""
	}
	var usual, wide []string
	for _, column := range catalog.Columns(kind.GroupVersionKind).Table(nil, nil, columns.Options{}, time.Time{}).ColumnDefinitions {
		if column.Priority == 0 {
			usual = append(usual, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
	}
	text := strings.Join(usual, ", ")
	if len(wide) > 0 {
		text += "; " + strings.Join(wide, ", ")
	}
	return text
}

// key is where in etcd an object of the kind stands, and as what if not as itself.
func key(kind *scheme.Kind) string {
	if kind.Virtual {
		return ""
	}
	text := "`" + kind.Key("NAMESPACE", "NAME") + "`"
	if !kind.Stored() {
		gv, name := kind.Storage.ToAPIVersionAndKind()
		text += " as " + gv + " " + name
	}
	return text
}

package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkSleeps finds each use of time.Sleep that does not certainly run in a synctest bubble. A use
// is in a bubble if it is in an argument of synctest.Test, or in one of:
//   - a function that is only mentioned in bubbles,
//   - a function literal passed to a function whose function parameters run in bubbles,
//   - a function literal in a table whose function fields run in bubbles.
//
// The sleepers of rules.go are exempt.
func checkSleeps(root string, sources []source) ([]Violation, error) {
	uses, err := sleepsOutside(root, sources)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, u := range uses {
		if !slices.Contains(sleepers, u.sleeper()) {
			found = append(found, Violation{u.file, fmt.Sprintf("sleeps in %s, line %d, outside a synctest bubble: "+
				"poll with a deadline, or wait with a timer and a context", u.in, u.line)})
		}
	}
	return found, nil
}

// staleSleepers returns the sleepers that do not sleep outside bubbles.
func staleSleepers(root string, sources []source) ([]Violation, error) {
	uses, err := sleepsOutside(root, sources)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, sleeper := range sleepers {
		if !slices.ContainsFunc(uses, func(u use) bool { return u.sleeper() == sleeper }) {
			found = append(found, Violation{sleeper, "is a stale exception to the rule about time.Sleep"})
		}
	}
	return found, nil
}

// sleepsOutside returns the uses of time.Sleep that checkSleeps reports, sleepers included.
func sleepsOutside(root string, sources []source) ([]use, error) {
	folders := map[string]*folder{}
	for _, s := range sources {
		if s.sleeps > 0 {
			folders[s.dir] = &folder{declared: map[string]*declared{}}
		}
	}
	for _, s := range sources {
		if f := folders[s.dir]; f != nil {
			if err := f.add(filepath.Join(root, filepath.FromSlash(s.file)), s.file); err != nil {
				return nil, err
			}
		}
	}
	var found []use
	for _, f := range folders {
		f.findBubbles()
		for _, u := range f.uses {
			if u.of == sleep && !f.inBubble(u) {
				found = append(found, u)
			}
		}
	}
	return found, nil
}

// Stand-ins for names that are special or missing.
const (
	sleep  = "time.Sleep"
	bubble = "synctest.Test"
	table  = "{}"
	no     = "?"
)

// folder is what checkSleeps knows about the functions of a folder. It identifies functions by
// their bare names, so methods with the same name count as one function.
type folder struct {
	declared map[string]*declared
	uses     []use
}

// declared is a function declared in a folder.
type declared struct {
	// parameters and fields are the names of its parameters, and of the fields of its tables, that
	// have a function type.
	parameters, fields []string
	// bubbled reports whether it runs in bubbles only, forwards whether its function arguments do,
	// and tables whether the functions in its tables do.
	bubbled, forwards, tables bool
}

// use is a mention of a name, or of time.Sleep.
type use struct {
	file   string
	line   int
	in, of string // in is the function that contains the mention
	// within has the names of the enclosing calls and tables, by the called function.
	within []string
}

// sleeper returns the folder and the function of a use, in the form of the list sleepers.
func (u use) sleeper() string { return path.Dir(u.file) + " " + u.in }

func (f *folder) add(name, rel string) error {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		in := no
		if function, ok := decl.(*ast.FuncDecl); ok {
			in = function.Name.Name
			d := f.declared[in]
			if d == nil {
				d = &declared{}
				f.declared[in] = d
			}
			d.parameters = append(d.parameters, functionsOf(function.Type.Params)...)
			ast.Inspect(function, func(node ast.Node) bool {
				if structure, ok := node.(*ast.StructType); ok {
					d.fields = append(d.fields, functionsOf(structure.Fields)...)
				}
				return true
			})
		}
		record := func(node ast.Node, of string, within []string) {
			f.uses = append(f.uses, use{file: rel, line: positions.Position(node.Pos()).Line, in: in, of: of, within: within})
		}
		ast.Walk(visitor{record: record}, decl)
	}
	return nil
}

// functionsOf returns the names of the fields or parameters with a function type.
func functionsOf(fields *ast.FieldList) []string {
	var names []string
	for _, field := range fields.List {
		if _, ok := field.Type.(*ast.FuncType); ok {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// visitor records the names that a declaration mentions, with the calls around each mention.
type visitor struct {
	within []string
	record func(node ast.Node, of string, within []string)
}

// Visit implements ast.Visitor.
func (v visitor) Visit(node ast.Node) ast.Visitor {
	switch node := node.(type) {
	case *ast.FuncDecl:
		// Its name and its parameters do not count as mentions.
		if node.Body != nil {
			ast.Walk(v, node.Body)
		}
		return nil
	case *ast.StructType:
		return nil
	case *ast.CompositeLit:
		return v.inside(table)
	case *ast.KeyValueExpr:
		ast.Walk(v, node.Value)
		return nil
	case *ast.CallExpr:
		ast.Walk(v, node.Fun)
		for _, argument := range node.Args {
			ast.Walk(v.inside(calledName(node.Fun)), argument)
		}
		return nil
	case *ast.SelectorExpr:
		if isSelector(node, "time", "Sleep") {
			v.record(node, sleep, v.within)
			return nil
		}
	case *ast.Ident:
		v.record(node, node.Name, v.within)
	}
	return v
}

func (v visitor) inside(name string) visitor {
	return visitor{within: append(slices.Clip(v.within), name), record: v.record}
}

// calledName returns the bare name of the called function.
func calledName(called ast.Expr) string {
	switch called := called.(type) {
	case *ast.Ident:
		return called.Name
	case *ast.SelectorExpr:
		if isSelector(called, "synctest", "Test") {
			return bubble
		}
		return called.Sel.Name
	}
	return no
}

func isSelector(expr ast.Expr, pkg, name string) bool {
	selected, ok := expr.(*ast.SelectorExpr)
	if !ok || selected.Sel.Name != name {
		return false
	}
	of, ok := selected.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// findBubbles determines which functions run in bubbles. It starts from none, since a recursive
// function is in a bubble only if another caller is.
func (f *folder) findBubbles() {
	for changed := true; changed; {
		changed = false
		for name, d := range f.declared {
			is := declared{
				parameters: d.parameters, fields: d.fields,
				bubbled:  !isTest(name) && f.onlyInBubbles(name, ""),
				forwards: slices.ContainsFunc(d.parameters, func(p string) bool { return f.onlyInBubbles(p, name) }),
				tables:   slices.ContainsFunc(d.fields, func(field string) bool { return f.onlyInBubbles(field, name) }),
			}
			if is.bubbled != d.bubbled || is.forwards != d.forwards || is.tables != d.tables {
				*d, changed = is, true
			}
		}
	}
}

// onlyInBubbles reports whether a name is mentioned, and only in bubbles. If in is not empty, only
// mentions in that function count.
func (f *folder) onlyInBubbles(name, in string) bool {
	mentioned := false
	for _, u := range f.uses {
		if u.of == name && (in == "" || u.in == in) {
			if !f.inBubble(u) {
				return false
			}
			mentioned = true
		}
	}
	return mentioned
}

func (f *folder) inBubble(u use) bool {
	d := f.declared[u.in]
	return d != nil && d.bubbled || slices.ContainsFunc(u.within, func(name string) bool {
		called := f.declared[name]
		return name == bubble || name == table && d != nil && d.tables || called != nil && called.forwards
	})
}

// isTest reports whether the go tool calls functions with that name.
func isTest(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

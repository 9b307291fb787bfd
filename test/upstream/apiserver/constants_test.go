package upstream

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// modules are the modules that declare the Go types of the kinds.
var modules = []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/kube-aggregator"}

// Constants returns the values of the string constants of each named type, by the type's full name
// ("k8s.io/api/core/v1.PodPhase"). Only they can tell which values an enumeration has.
func Constants() (map[string][]string, error) {
	found := map[string][]string{}
	for _, module := range modules {
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return nil, fmt.Errorf("finding the module %s: %w", module, err)
		}
		dir := strings.TrimSpace(string(root))
		err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, "types.go") {
				return err
			}
			rel, err := filepath.Rel(dir, filepath.Dir(file))
			if err != nil {
				return err
			}
			return constantsOf(found, path.Join(module, filepath.ToSlash(rel)), file)
		})
		if err != nil {
			return nil, fmt.Errorf("reading the constants of %s: %w", module, err)
		}
	}
	for name, values := range found {
		slices.Sort(values)
		found[name] = slices.Compact(values)
	}
	return found, nil
}

func constantsOf(found map[string][]string, pkg, name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || len(value.Values) != 1 {
				continue
			}
			typed, ok := value.Type.(*ast.Ident)
			if !ok {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return err
			}
			full := pkg + "." + typed.Name
			found[full] = append(found[full], text)
		}
	}
	return nil
}

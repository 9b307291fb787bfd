package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// assertable maps the interfaces to which a type assertion or a type switch may lead, though this
// module declares them, to the reason. An interface is named by its folder and its name, or its
// literal.
var assertable = map[string]string{
	"libs/scheme.Object":                                         kubernetesOwn,
	"libs/scheme.message":                                        kubernetesOwn,
	"libs/scheme.interface{Size() int}":                          kubernetesOwn,
	"libs/informer/clientgo.interface{Size() int}":               kubernetesOwn,
	"services/apiserver/internal/http/response.message":          kubernetesOwn,
	"services/apiserver/internal/registry/managedfields.message": kubernetesOwn,

	"libs/pki.interface{Equal(other crypto.PublicKey) bool}":                                 standardKeys,
	"services/apiserver/internal/kinds/certificates.interface{Equal(crypto.PublicKey) bool}": standardKeys,

	"services/nodeagent/internal/relay.interface{CloseWrite() error}": "of the standard library's connections some can close one direction",

	"libs/informer.interface{deliverAll()}":               "any value can be passed for a Registration; only this package's own is one",
	"libs/informer/workqueue.MetricsProviderWithPriority": "client-go's interface, which its users implement or not",
	"libs/informer/workqueue.TypedScheduler":              "the queue beneath may be another module's",
	"services/apiserver/internal/http/authz.RuleResolver": "as in Kubernetes, not every authorizer can list its rules",
}

const (
	kubernetesOwn = "Kubernetes' machinery passes a runtime.Object; what its types have besides differs"
	standardKeys  = "the standard library describes public keys by this method"
)

// assertion is a type assertion to an interface that this module declares.
type assertion struct {
	file string
	line int
	to   string // as in assertable
}

// checkAssertions finds assertions to interfaces of this module: optional interfaces. What one
// package may ask of another belongs into one interface, which every implementation and every
// wrapper has as a whole. Tests may assert what they like.
func checkAssertions(root string, sources []source) ([]Violation, error) {
	made, err := assertions(root, sources)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, a := range made {
		if assertable[a.to] == "" {
			found = append(found, Violation{a.file, fmt.Sprintf("asserts the interface %s in line %d: make it part of the interface that it extends", a.to, a.line)})
		}
	}
	return found, nil
}

// staleAssertable returns the entries of assertable to which no assertion leads.
func staleAssertable(root string, sources []source) ([]Violation, error) {
	made, err := assertions(root, sources)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, to := range slices.Sorted(maps.Keys(assertable)) {
		if !slices.ContainsFunc(made, func(a assertion) bool { return a.to == to }) {
			found = append(found, Violation{to, "is a stale exception to the rule about optional interfaces"})
		}
	}
	return found, nil
}

// assertions returns the assertions outside tests to interfaces that this module declares.
func assertions(root string, sources []source) ([]assertion, error) {
	positions := token.NewFileSet()
	files := map[string]*ast.File{}
	declared := map[string]bool{}
	for _, s := range sources {
		if s.test || s.generated {
			continue
		}
		file, err := parser.ParseFile(positions, filepath.Join(root, filepath.FromSlash(s.file)), nil, 0)
		if err != nil {
			return nil, err
		}
		files[s.file] = file
		for _, name := range interfacesOf(file) {
			declared[s.dir+"."+name] = true
		}
	}
	var made []assertion
	for _, s := range sources {
		file := files[s.file]
		if file == nil {
			continue
		}
		folders := foldersOf(file)
		ast.Inspect(file, func(node ast.Node) bool {
			for _, asserted := range assertedBy(node) {
				if to := interfaceName(s.dir, folders, asserted); declared[to] || strings.Contains(to, ".interface{") {
					made = append(made, assertion{s.file, positions.Position(asserted.Pos()).Line, to})
				}
			}
			return true
		})
	}
	return made, nil
}

// interfacesOf returns the names of the interfaces that a file declares.
func interfacesOf(file *ast.File) []string {
	var names []string
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if _, is := spec.Type.(*ast.InterfaceType); is {
				names = append(names, spec.Name.Name)
			}
		}
		return true
	})
	return names
}

// foldersOf maps the names under which a file imports packages of this module to their folders.
func foldersOf(file *ast.File) map[string]string {
	folders := map[string]string{}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		dir, ok := strings.CutPrefix(imported, Module+"/")
		if !ok {
			continue
		}
		name := dir[strings.LastIndexByte(dir, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		folders[name] = dir
	}
	return folders
}

// assertedBy returns the types that a node asserts: that of a type assertion, or those of the cases
// of a type switch.
func assertedBy(node ast.Node) []ast.Expr {
	switch node := node.(type) {
	case *ast.TypeAssertExpr:
		if node.Type != nil {
			return []ast.Expr{node.Type}
		}
	case *ast.TypeSwitchStmt:
		var asserted []ast.Expr
		for _, clause := range node.Body.List {
			if clause, ok := clause.(*ast.CaseClause); ok {
				asserted = append(asserted, clause.List...)
			}
		}
		return asserted
	}
	return nil
}

// interfaceName returns the name that a type would have in assertable, if it is an interface.
func interfaceName(dir string, folders map[string]string, asserted ast.Expr) string {
	switch asserted := asserted.(type) {
	case *ast.Ident:
		return dir + "." + asserted.Name
	case *ast.SelectorExpr:
		if pkg, ok := asserted.X.(*ast.Ident); ok && folders[pkg.Name] != "" {
			return folders[pkg.Name] + "." + asserted.Sel.Name
		}
	case *ast.IndexExpr:
		return interfaceName(dir, folders, asserted.X)
	case *ast.IndexListExpr:
		return interfaceName(dir, folders, asserted.X)
	case *ast.InterfaceType:
		return dir + "." + types.ExprString(asserted)
	}
	return ""
}

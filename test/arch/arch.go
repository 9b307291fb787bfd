// Package arch holds the rules of the source tree that the compiler does not check: which package
// may import which, how large a file may grow, which names are refused. Check parses the sources
// in-process, so that the go tool's test cache tracks every file that a verdict depends on.
package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Module is the import path of the module that the rules apply to.
const Module = "github.com/garboard/garboard"

// Violation is one broken rule.
type Violation struct {
	// File is relative to the module's root, slash-separated.
	File string
	// Why names the broken rule and its reason.
	Why string
}

func (v Violation) String() string { return v.File + ": " + v.Why }

// source is what the rules need to know about a Go file.
type source struct {
	file      string // relative, slash-separated
	dir       string
	test      bool
	generated bool
	lines     int
	pkg       string
	imports   []string
	inits     int
	sleeps    int
	// starts describes the first thing in the file that starts goroutines, with its line; empty if
	// nothing does.
	starts string
	// constraint is the build constraint; verifiesLeaks reports whether the file has a TestMain
	// that ends with goleak's check.
	constraint    string
	verifiesLeaks bool
	// wide are the lines that are longer than MaxColumns, and long the functions with more than
	// MaxFunctionLines lines.
	wide []int
	long map[string]int
}

// Check applies all rules to the module rooted at root.
func Check(root string) ([]Violation, error) {
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, s := range sources {
		found = append(found, checkImports(s)...)
		found = append(found, checkClientGo(s)...)
		found = append(found, checkGeneric(s)...)
		found = append(found, checkFile(s)...)
		found = append(found, checkColumns(s)...)
		found = append(found, checkFunctions(s)...)
	}
	found = append(found, checkSizes(sources)...)
	found = append(found, checkPackages(sources)...)
	found = append(found, checkContracts(sources)...)
	found = append(found, checkLeaks(sources)...)
	found = append(found, checkCallers(sources)...)
	found = append(found, checkTested(sources)...)
	sleeping, err := checkSleeps(root, sources)
	if err != nil {
		return nil, err
	}
	found = append(found, sleeping...)
	asserting, err := checkAssertions(root, sources)
	if err != nil {
		return nil, err
	}
	found = append(found, asserting...)
	sort.Slice(found, func(i, j int) bool { return found[i].String() < found[j].String() })
	return found, nil
}

func read(root string) ([]source, error) {
	var sources []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			base := entry.Name()
			if rel != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		s, err := readFile(name, rel)
		if err != nil {
			return err
		}
		sources = append(sources, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sources below %s: %w", root, err)
	}
	return sources, nil
}

func readFile(name, rel string) (source, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return source{}, err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, data, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	s := source{
		file: rel, dir: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
		generated: ast.IsGenerated(file), lines: bytes.Count(data, []byte("\n")), pkg: file.Name.Name,
		constraint: constraint(file), verifiesLeaks: verifiesLeaks(file),
		wide: wideLines(data), long: functionLines(positions, file),
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			s.inits++
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if selected, ok := node.(*ast.SelectorExpr); ok && isSelector(selected, "time", "Sleep") {
			s.sleeps++
		}
		return true
	})
	s.starts = startsGoroutine(positions, file, s.imports)
	return s, nil
}

func checkImports(s source) []Violation {
	var found []Violation
	for _, imported := range s.imports {
		for _, r := range rules {
			if r.broken(s, imported) {
				found = append(found, Violation{s.file, fmt.Sprintf("imports %s: %s", imported, r.why)})
			}
		}
		if why := foreignService(s, imported); why != "" {
			found = append(found, Violation{s.file, fmt.Sprintf("imports %s: %s", imported, why)})
		}
	}
	return found
}

// foreignService returns why a file may not import a service's package, or "" if it may.
func foreignService(s source, imported string) string {
	to, ok := strings.CutPrefix(imported, Module+"/services/")
	if !ok {
		return ""
	}
	service, rest, _ := strings.Cut(to, "/")
	if from, ok := strings.CutPrefix(s.dir, "services/"); ok {
		own, _, _ := strings.Cut(from, "/")
		if own == service || (own == "standalone" && rest == "") {
			return ""
		}
		return "services never import each other; only services/standalone composes them, by their root packages"
	}
	if rest != "" && !strings.HasPrefix(s.dir, "test/") {
		return "the root package is the only door of a service"
	}
	if strings.HasPrefix(s.dir, "libs/") || strings.HasPrefix(s.dir, "proto/") {
		return "libraries never import services"
	}
	return ""
}

func checkFile(s source) []Violation {
	var found []Violation
	if s.inits > 0 && !s.generated {
		found = append(found, Violation{s.file, "has an init function: registries are tables, built where they are used"})
	}
	return found
}

func checkPackages(sources []source) []Violation {
	named := map[string]string{}
	for _, s := range sources {
		if !s.test && !s.generated {
			named[s.dir] = s.pkg
		}
	}
	var found []Violation
	for dir, pkg := range named {
		for _, refused := range refusedNames {
			if pkg == refused || pkg == refused+"s" {
				found = append(found, Violation{dir, fmt.Sprintf("is named %s, which says nothing about its content", pkg)})
			}
		}
	}
	return found
}

// checkContracts finds contracts that a party does not use in non-test code.
func checkContracts(sources []source) []Violation {
	used, present := map[string]bool{}, map[string]bool{}
	for _, s := range sources {
		present[s.dir] = true
		if s.test {
			continue
		}
		for _, imported := range s.imports {
			for contract, parties := range contracts {
				for _, party := range parties {
					if imported == Module+"/"+contract && strings.HasPrefix(s.dir+"/", party+"/") {
						used[contract+" "+party] = true
					}
				}
			}
		}
	}
	var found []Violation
	for contract, parties := range contracts {
		for _, party := range parties {
			if present[contract] && !used[contract+" "+party] {
				found = append(found, Violation{contract, "is a contract that " + party + " does not use: both parties must share the one declaration"})
			}
		}
	}
	return found
}

package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// MaxFunctionLines limits the lines of a function in files that are neither generated nor tests:
// tests are tables.
const MaxFunctionLines = 80

// longFunctions maps longer functions, with their folder, to the reason why they stay in one piece.
var longFunctions = map[string]string{
	"libs/scheme workloadRows": isTable,
	"libs/scheme clusterRows":  isTable,
	"libs/scheme storageRows":  isTable,
	"services/apiserver/internal/upkeep/bootstraproles forWorkloads": isTable,
	"test/containers/images/busybox run":                             "each case is one of the commands of the tests' image",
}

const isTable = "it returns a table"

// functionLines has the functions of a file that are longer than MaxFunctionLines, by name.
func functionLines(positions *token.FileSet, file *ast.File) map[string]int {
	long := map[string]int{}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := positions.Position(f.End()).Line - positions.Position(f.Pos()).Line + 1; n > MaxFunctionLines {
			long[f.Name.Name] = n
		}
	}
	return long
}

// checkFunctions finds functions that are too long.
func checkFunctions(s source) []Violation {
	if s.test || s.generated {
		return nil
	}
	var found []Violation
	for name, n := range s.long {
		if longFunctions[s.dir+" "+name] == "" {
			found = append(found, Violation{s.file, fmt.Sprintf("has %s with %d lines, more than %d", name, n, MaxFunctionLines)})
		}
	}
	return found
}

// staleFunctions returns the exceptions to checkFunctions that nothing needs.
func staleFunctions(sources []source) []Violation {
	var found []Violation
	for function := range longFunctions {
		needed := slices.ContainsFunc(sources, func(s source) bool {
			for name := range s.long {
				if !s.test && !s.generated && s.dir+" "+name == function {
					return true
				}
			}
			return false
		})
		if !needed {
			found = append(found, Violation{function, "is not too long: remove it from longFunctions"})
		}
	}
	return found
}

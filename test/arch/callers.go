package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// minCallers is how many services or commands must use a library; with one user it belongs there.
const minCallers = 2

// servingOne maps the libraries with fewer users to the reason why they are libraries.
var servingOne = map[string]string{
	"libs/changefeed":        "programs outside this module import it, to follow changes",
	"libs/informer/clientgo": "programs outside this module import it, to keep client-go's interfaces",
	"libs/informer/store":    "programs outside this module import it with the informer, for objects of their own",
	"libs/pki/deployment":    "a contract: services read the files that an installation writes, and their tests write them with it",
	"libs/informer/persist":  "the node agent will keep its objects with it, to start without the apiserver",
}

// checkCallers finds libraries that fewer than two services or commands use.
//
// A service uses what its non-test code imports, directly or through other libraries. A command
// uses what it imports in the same way and through the rooms that the commands share; what a
// service uses does not count for the command that starts it. Support for tests has tests as its
// users, and an internal package belongs to its library.
func checkCallers(sources []source) []Violation {
	var found []Violation
	for dir, users := range unshared(sources) {
		if servingOne[dir] == "" {
			found = append(found, Violation{dir, fmt.Sprintf(
				"is a library that only %v of services and commands use: it belongs to its one user", users)})
		}
	}
	return found
}

// staleCallers returns the exceptions to checkCallers that nothing needs.
func staleCallers(sources []source) []Violation {
	without := unshared(sources)
	var found []Violation
	for dir := range servingOne {
		if _, ok := without[dir]; !ok {
			found = append(found, Violation{dir, "is not a library with fewer than two users: remove it from servingOne"})
		}
	}
	return found
}

// unshared returns the libraries that have fewer than minCallers users, with those.
func unshared(sources []source) map[string][]string {
	imports := map[string][]string{}
	for _, s := range sources {
		if s.test {
			continue
		}
		list := imports[s.dir]
		for _, imported := range s.imports {
			if dir, ok := strings.CutPrefix(imported, Module+"/"); ok {
				list = append(list, dir)
			}
		}
		imports[s.dir] = list
	}
	users := map[string][]string{}
	for dir := range imports {
		if user := userOf(dir); user != "" && !isSupport(dir) {
			follow(imports, dir, func(library string) {
				if !slices.Contains(users[library], user) {
					users[library] = append(users[library], user)
				}
			})
		}
	}
	found := map[string][]string{}
	for dir := range imports {
		if below(dir, "libs") && !isSupport(dir) && !strings.Contains(dir+"/", "/internal/") && len(users[dir]) < minCallers {
			found[dir] = users[dir]
		}
	}
	return found
}

// userOf returns the service or command that a folder belongs to; the empty string for others.
func userOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	if len(parts) < 2 || parts[0] != "services" && parts[0] != "cmd" || parts[0] == "cmd" && parts[1] == "internal" {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

// follow calls visit once for each folder that dir imports, directly or through libraries and the
// commands' shared rooms.
func follow(imports map[string][]string, dir string, visit func(dir string)) {
	seen := map[string]bool{}
	todo := slices.Clone(imports[dir])
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		if seen[next] || isSupport(next) {
			continue
		}
		seen[next] = true
		visit(next)
		if below(next, "libs") || below(next, "cmd/internal") {
			todo = append(todo, imports[next]...)
		}
	}
}

// isSupport reports whether a package exists for tests, as its name shows.
func isSupport(dir string) bool {
	name := path.Base(dir)
	return strings.HasSuffix(name, "test") || name == "fake"
}

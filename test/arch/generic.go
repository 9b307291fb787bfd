package arch

import (
	"fmt"
	"slices"
	"strings"
)

// genericRooms are the packages of the apiserver that treat all kinds alike. They import no API group:
// what is particular to a kind is in its definition, its row, or what serves its subresource.
var genericRooms = []string{
	"services/apiserver/internal/http/rest",
	"services/apiserver/internal/registry",
	"services/apiserver/internal/registry/deletion",
	"services/apiserver/internal/registry/listing",
	"services/apiserver/internal/registry/managedfields",
	"services/apiserver/internal/registry/ownerreferences",
	"services/apiserver/internal/registry/selection",
	"services/apiserver/internal/storage/feed",
	"services/apiserver/internal/storage/store",
	"services/apiserver/internal/fabric/publish",
	"services/apiserver/internal/fabric/respond",
}

// apiGroups is the import path below which each API group has its Go types.
const apiGroups = "k8s.io/api/"

// particularFiles maps the files of genericRooms that import an API group anyway to the reason.
var particularFiles = map[string]string{
	"services/apiserver/internal/storage/store/fence.go":   "a fence compares the holder of a Lease in the transaction of a write",
	"services/apiserver/internal/storage/store/members.go": "apiservers record themselves in etcd as Endpoints, as Kubernetes' do",
	"services/apiserver/internal/storage/store/write.go":   "a written Lease is remembered for the next fence",
}

// particular reports whether a file of a generic room imports an API group, and which.
func particular(s source) (group string, ok bool) {
	if s.test || !slices.Contains(genericRooms, s.dir) {
		return "", false
	}
	i := slices.IndexFunc(s.imports, func(imported string) bool { return strings.HasPrefix(imported, apiGroups) })
	if i < 0 {
		return "", false
	}
	return s.imports[i], true
}

// checkGeneric finds API groups in generic rooms.
func checkGeneric(s source) []Violation {
	group, ok := particular(s)
	if !ok || particularFiles[s.file] != "" {
		return nil
	}
	return []Violation{{s.file, fmt.Sprintf("imports %s: %s treats all kinds alike, and what is particular to one is below kinds", group, s.dir)}}
}

// staleGeneric returns the entries of particularFiles and genericRooms that nothing needs.
func staleGeneric(sources []source) []Violation {
	needed, rooms := map[string]bool{}, map[string]bool{}
	for _, s := range sources {
		rooms[s.dir] = true
		if _, ok := particular(s); ok {
			needed[s.file] = true
		}
	}
	var found []Violation
	for file := range particularFiles {
		if !needed[file] {
			found = append(found, Violation{file, "imports no API group: remove it from particularFiles"})
		}
	}
	for _, dir := range genericRooms {
		if !rooms[dir] {
			found = append(found, Violation{dir, "is no package: remove it from genericRooms"})
		}
	}
	return found
}

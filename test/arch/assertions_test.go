package arch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

func TestAssertions(t *testing.T) {
	const own = "package a\ntype Sink interface{ Take() }\ntype Also interface{ Note() }\ntype kept struct{}\ntype Of[T any] interface{ Get() T }\n"
	const imports = "package b\nimport (\n\t\"io\"\n\t\"github.com/garboard/garboard/libs/a\"\n\tx \"github.com/garboard/garboard/libs/a\"\n)\n"
	for _, tt := range []struct {
		name, file, source string
		// to is the interface of the violation; empty if there is none.
		to string
	}{
		{"in its own package", "libs/a/b.go", "package a\nfunc f(s Sink) { _, _ = s.(Also) }\n", "libs/a.Also"},
		{"in another package", "libs/b/b.go", imports + "func f(s a.Sink) { _, _ = s.(a.Also) }\n", "libs/a.Also"},
		{"under another name", "libs/b/b.go", imports + "func f(s x.Sink) { s.(x.Also).Note() }\n", "libs/a.Also"},
		{"in a type switch", "libs/b/b.go", imports + "func f(s a.Sink) {\n\tswitch s := s.(type) {\n\tcase io.Writer:\n\tcase a.Also:\n\t\ts.Note()\n\t}\n}\n", "libs/a.Also"},
		{"of a type parameter", "libs/b/b.go", imports + "func f(s any) { _, _ = s.(a.Of[int]) }\n", "libs/a.Of"},
		{"a literal", "libs/b/b.go", imports + "func f(s any) { _, _ = s.(interface{ Len() int }) }\n", "libs/b.interface{Len() int}"},
		{"a struct", "libs/a/b.go", "package a\nfunc f(s Sink) { _, _ = s.(kept); _, _ = s.(*kept) }\n", ""},
		{"another module's", "libs/b/b.go", imports + "func f(s any) { _, _ = s.(io.Writer); _, _ = s.(error) }\n", ""},
		{"in a test", "libs/a/b_test.go", "package a\nfunc f(s Sink) { _, _ = s.(Also) }\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := arch.Check(writeTree(t, map[string]string{"libs/a/a.go": own, tt.file: tt.source}))
			if err != nil {
				t.Fatal(err)
			}
			is := func(v arch.Violation) bool {
				return v.File == tt.file && strings.Contains(v.Why, "asserts the interface "+tt.to+" in line ")
			}
			if tt.to == "" {
				is = func(v arch.Violation) bool { return strings.Contains(v.Why, "asserts the interface") }
			}
			if slices.ContainsFunc(found, is) != (tt.to != "") {
				t.Errorf("found %v", found)
			}
		})
	}
}

package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/conformance"
	"github.com/garboard/garboard/test/vectors"
)

// vectorsEach bounds the vectors of one operation on one kind.
const vectorsEach = 40

// Collector chooses the cases that become test data: those with an error, a field or a cell that no
// earlier case has.
type Collector struct {
	seen   map[string]bool
	taken  map[string]int
	groups map[string][]conformance.Vector
}

// NewCollector returns an empty collector.
func NewCollector() *Collector {
	return &Collector{seen: map[string]bool{}, taken: map[string]int{}, groups: map[string][]conformance.Vector{}}
}

// Offer takes a case if it shows something new.
func (c *Collector) Offer(v conformance.Vector) error {
	of := v.Case.Kind.String() + " " + v.Case.Op
	if c.taken[of] >= vectorsEach {
		return nil
	}
	marks, err := marksOf(v)
	if err != nil {
		return err
	}
	fresh := false
	for _, mark := range marks {
		if mark = of + " " + mark; !c.seen[mark] {
			c.seen[mark], fresh = true, true
		}
	}
	if !fresh {
		return nil
	}
	c.taken[of]++
	file := fileOf(v.Case.Kind)
	c.groups[file] = append(c.groups[file], v)
	return nil
}

// fileOf returns the name of the file for the vectors of a kind: one for each group.
func fileOf(kind schema.GroupVersionKind) string {
	group, _, _ := strings.Cut(kind.Group, ".")
	if group == "" {
		group = "core"
	}
	return group + ".jsonl.gz"
}

// Write replaces the vectors in dir.
func (c *Collector) Write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, group := range c.groups {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := vectors.Write(file, group); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// marksOf returns what a vector shows.
func marksOf(v conformance.Vector) ([]string, error) {
	var marks []string
	for _, err := range v.Answer.Errors {
		marks = append(marks, "error "+plain(err))
	}
	for _, warning := range v.Answer.Warnings {
		marks = append(marks, "warning "+plain(warning))
	}
	for i, cell := range v.Answer.Cells {
		marks = append(marks, fmt.Sprintf("cell %d %s", i, plain(cell)))
	}
	for _, form := range []json.RawMessage{v.Answer.Defaulted, v.Answer.Stored} {
		if len(form) == 0 {
			continue
		}
		var obj any
		if err := json.Unmarshal(form, &obj); err != nil {
			return nil, err
		}
		marks = leaves(marks, "", obj)
	}
	return marks, nil
}

func leaves(found []string, path string, value any) []string {
	switch typed := value.(type) {
	case map[string]any:
		for key, value := range typed {
			found = leaves(found, path+"."+key, value)
		}
	case []any:
		for _, value := range typed {
			found = leaves(found, path+"[]", value)
		}
	default:
		found = append(found, "field "+path)
	}
	return found
}

var (
	index  = regexp.MustCompile(`\[[^\]]*\]`)
	quoted = regexp.MustCompile(`"[^"]*"`)
	number = regexp.MustCompile(`-?\d+`)
)

// plain returns a text without what depends on the values of one object.
func plain(text string) string {
	return number.ReplaceAllString(quoted.ReplaceAllString(index.ReplaceAllString(text, "[]"), `"…"`), "#")
}

// fieldOf returns what a difference is about, without what depends on one object. Fields of pods have
// the same name in all templates.
func fieldOf(d conformance.Difference) string {
	path := index.ReplaceAllString(d.Path, "[]")
	for _, template := range []string{"spec.jobTemplate.spec.template.", "spec.template.", "template."} {
		if rest, ok := strings.CutPrefix(path, template); ok {
			path = "pod:" + rest
		}
	}
	return d.Aspect + " " + path
}

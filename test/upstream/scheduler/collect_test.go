package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/garboard/garboard/services/scheduler/internal/conformance"
	"github.com/garboard/garboard/test/vectors"
)

// maxVectors bounds the random cases in the test data.
const maxVectors = 400

// Collector chooses the cases that become test data: those that show what few other cases show.
type Collector struct {
	// Always are test data in any case.
	Always  []conformance.Vector
	offered []conformance.Vector
	marks   [][]string
	// times counts the cases that have a mark.
	times map[string]int
}

// NewCollector returns an empty collector.
func NewCollector() *Collector { return &Collector{times: map[string]int{}} }

// Offer takes a case.
func (c *Collector) Offer(v conformance.Vector) {
	marks := marksOf(&v)
	for _, mark := range marks {
		c.times[mark]++
	}
	c.offered, c.marks = append(c.offered, v), append(c.marks, marks)
}

// Vectors returns the test data: the random cases follow in the order in which they were offered.
func (c *Collector) Vectors() []conformance.Vector {
	rarity, order := make([]float64, len(c.offered)), make([]int, len(c.offered))
	for i, marks := range c.marks {
		order[i] = i
		for _, mark := range marks {
			rarity[i] += 1 / float64(c.times[mark])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rarity[b], rarity[a]) })
	order = order[:min(len(order), maxVectors)]
	slices.Sort(order)
	chosen := make([]conformance.Vector, len(order))
	for i, at := range order {
		chosen[i] = c.offered[at]
	}
	return append(slices.Clone(c.Always), chosen...)
}

// Write writes the vectors to a file.
func (c *Collector) Write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := vectors.Write(file, c.Vectors()); err != nil {
		return err
	}
	return file.Close()
}

// marksOf returns what a vector shows: what becomes of pods with some field, and each score of a
// plugin; sorted, each once.
func marksOf(v *conformance.Vector) []string {
	found := []string{"message " + plain(v.Answer.Message)}
	var fields []string
	if data, err := json.Marshal(v.Case.Pod.Spec); err == nil {
		var spec map[string]any
		if json.Unmarshal(data, &spec) == nil {
			fields = leaves(nil, "", spec)
		}
	}
	var filters []string
	for _, verdict := range v.Answer.Nodes {
		filters = append(filters, verdict.Filter)
		for _, field := range fields {
			found = append(found, verdict.Filter+" "+field)
		}
		found = append(found, fmt.Sprint(verdict.Final, verdict.Reasons))
		for plugin, score := range verdict.Scores {
			found = append(found, fmt.Sprint(plugin, " ", score))
			if score < 100 {
				for _, field := range fields {
					found = append(found, plugin+" "+field)
				}
			}
		}
	}
	slices.Sort(filters)
	found = append(found, fmt.Sprint(slices.Compact(filters)))
	slices.Sort(found)
	return slices.Compact(found)
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
		found = append(found, path)
	}
	return found
}

var variable = regexp.MustCompile(`"[^"]*"|\d+`)

// plain returns a text without names and numbers.
func plain(text string) string { return variable.ReplaceAllString(text, "#") }

package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/garboard/garboard/services/scheduler/internal/conformance"
)

// maxVectors bounds the test data.
const maxVectors = 400

// Collector chooses the cases that become test data: those that show something that no earlier case
// shows.
type Collector struct {
	Vectors []conformance.Vector
	seen    map[string]bool
}

// NewCollector returns an empty collector.
func NewCollector() *Collector { return &Collector{seen: map[string]bool{}} }

// Offer takes a case if it shows something new.
func (c *Collector) Offer(v conformance.Vector) {
	if len(c.Vectors) == maxVectors {
		return
	}
	fresh := false
	for _, mark := range marks(&v) {
		fresh = fresh || !c.seen[mark]
		c.seen[mark] = true
	}
	if fresh {
		c.Vectors = append(c.Vectors, v)
	}
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
	if err := conformance.WriteVectors(file, c.Vectors); err != nil {
		return err
	}
	return file.Close()
}

// marks returns what a vector shows: the reason for which a pod with some field is refused, and each
// score of a plugin.
func marks(v *conformance.Vector) []string {
	found := []string{"message " + plain(v.Answer.Message)}
	var fields []string
	if data, err := json.Marshal(v.Case.Pod.Spec); err == nil {
		var spec map[string]any
		if json.Unmarshal(data, &spec) == nil {
			fields = leaves(nil, "", spec)
		}
	}
	for _, verdict := range v.Answer.Nodes {
		for _, field := range fields {
			found = append(found, verdict.Filter+" "+field)
		}
		found = append(found, fmt.Sprint(verdict.Final, verdict.Reasons))
		for plugin, score := range verdict.Scores {
			found = append(found, fmt.Sprint(plugin, " ", score))
		}
	}
	return found
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

package upstream

import (
	"fmt"
	"os"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime/conformance"
	"github.com/garboard/garboard/test/vectors"
)

// mostVectors bounds the number of random pods that become test data.
const mostVectors = 60

// collector chooses the cases that become test data: all boundaries, and the random pods that show a
// call, a field or a reason that no earlier case has.
type collector struct {
	seen map[string]bool
	// always takes each case, and closed none.
	always, closed bool
	random         int
	vectors        []conformance.Vector
}

func newCollector() *collector { return &collector{seen: map[string]bool{}} }

func (c *collector) offer(v conformance.Vector) {
	if c.closed {
		return
	}
	fresh := c.always
	var marks []string
	for _, call := range v.Answer.Calls {
		marks = leaves(marks, call.Method, call.Request)
	}
	for _, mark := range marks {
		if !c.seen[mark] {
			c.seen[mark], fresh = true, true
		}
	}
	if !fresh || !c.always && c.random == mostVectors {
		return
	}
	if !c.always {
		c.random++
	}
	c.vectors = append(c.vectors, v)
}

func leaves(found []string, path string, value any) []string {
	switch typed := value.(type) {
	case map[string]any:
		for key, value := range typed {
			found = leaves(found, path+"."+key, value)
		}
	case []any:
		found = append(found, fmt.Sprintf("%s %d", path, len(typed)))
		for _, value := range typed {
			found = leaves(found, path+"[]", value)
		}
	default:
		found = append(found, path)
	}
	return found
}

func (c *collector) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := vectors.Write(file, c.vectors); err != nil {
		return err
	}
	return file.Close()
}

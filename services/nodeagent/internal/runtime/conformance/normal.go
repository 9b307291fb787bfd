package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// normalisation replaces what must differ between two runs of the same pod.
type normalisation struct {
	// path is where: the method, and the path of a field without indices and keys.
	path *regexp.Regexp
	why  string
	to   func(value any) any
}

// normalisations are all of them, except that the root of a machine's files is always "$ROOT".
var normalisations = []normalisation{
	{
		regexp.MustCompile(`^CreateContainer config\.envs$`),
		"the kubelet orders the environment at random; each name is there once", sortEnvironment,
	},
	{
		regexp.MustCompile(`dnsConfig\.options$`),
		"the kubelet orders the options of a pod's own configuration at random", sortTexts,
	},
	{
		regexp.MustCompile(`hugepageLimits$`),
		"the kubelet orders the sizes as it finds them in a directory", sortSizes,
	},
	{
		regexp.MustCompile(`^CreateContainer config\.mounts\.hostPath$`),
		"the file of a termination message has a name of the node's choice, at random in the kubelet", anyMessageFile,
	},
	{
		regexp.MustCompile(`[. ](labels|annotations)$`),
		"labels and annotations below garboard.io/ are for the node agent itself", withoutOwn,
	},
	{
		regexp.MustCompile(`\.maskedPaths$`),
		"which processors have a directory to mask depends on the machine", withoutThrottle,
	},
}

func sortEnvironment(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	name := func(v any) string { return fmt.Sprint(v.(map[string]any)["key"]) }
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(name(a), name(b)) })
	return list
}

func sortTexts(value any) any {
	if list, ok := value.([]any); ok {
		slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return value
}

func sortSizes(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	size := func(v any) string { return fmt.Sprint(v.(map[string]any)["pageSize"]) }
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(size(a), size(b)) })
	return list
}

var messageFile = regexp.MustCompile(`^(\$ROOT/pods/[^/]+/containers/[^/]+/)[0-9a-f]+$`)

func anyMessageFile(value any) any {
	text, _ := value.(string)
	return messageFile.ReplaceAllString(text, "${1}*")
}

func withoutOwn(value any) any {
	entries, ok := value.(map[string]any)
	if !ok {
		return value
	}
	maps.DeleteFunc(entries, func(key string, _ any) bool { return strings.HasPrefix(key, "garboard.io/") })
	if len(entries) == 0 {
		return nil
	}
	return entries
}

func withoutThrottle(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	return slices.DeleteFunc(list, func(v any) bool { return strings.HasSuffix(fmt.Sprint(v), "/thermal_throttle") })
}

// normal returns an answer without what must differ between two runs of the same pod.
func normal(answer Answer, root string, sidecars, debuggers []string) (Answer, error) {
	for i := range answer.Calls {
		call := &answer.Calls[i]
		call.Request = normalValue(call.Method+" ", call.Request, root)
	}
	sortStops(answer.Calls, sidecars, debuggers)
	if hosts, err := os.ReadFile("/etc/hosts"); err == nil && len(hosts) > 0 {
		answer.Hosts = strings.ReplaceAll(answer.Hosts, string(hosts), "$HOSTS\n")
	}
	for container, reason := range answer.Waits {
		answer.Waits[container] = strings.ReplaceAll(reason, root, "$ROOT")
	}
	// The form that an answer has when it is read again.
	data, err := json.Marshal(answer)
	if err != nil {
		return Answer{}, fmt.Errorf("encoding an answer: %w", err)
	}
	var again Answer
	if err := json.Unmarshal(data, &again); err != nil {
		return Answer{}, fmt.Errorf("decoding an answer: %w", err)
	}
	return again, nil
}

func normalValue(path string, value any, root string) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, field := range typed {
			at := path + key
			if !strings.HasSuffix(path, " ") {
				at = path + "." + key
			}
			if field = normalValue(at, field, root); field == nil {
				delete(typed, key)
				continue
			}
			typed[key] = field
		}
	case []any:
		for i := range typed {
			typed[i] = normalValue(path, typed[i], root)
		}
	case string:
		value = strings.ReplaceAll(typed, root, "$ROOT")
	}
	for _, n := range normalisations {
		if n.path.MatchString(path) {
			value = n.to(value)
		}
	}
	return value
}

// sortStops orders the calls that end containers at once, with their hooks: all that are not init
// containers. The calls about one container keep their order. Ephemeral containers end beside the others and wait for
// none, so that their calls may come before those of sidecars, or after: they come first.
func sortStops(calls []Call, sidecars, debuggers []string) {
	ends := func(call Call) bool { return call.Method == "StopContainer" || call.Method == "ExecSync" }
	for run := range runs(calls, ends) {
		slices.SortStableFunc(run, func(a, b Call) int {
			return cmp.Compare(rank(a, debuggers), rank(b, debuggers))
		})
	}
	for run := range runs(calls, func(call Call) bool { return ends(call) && !hasPrefix(idOf(call), sidecars) }) {
		slices.SortStableFunc(run, func(a, b Call) int { return cmp.Compare(idOf(a), idOf(b)) })
	}
}

// rank returns 0 for calls about ephemeral containers, and 1 for others.
func rank(call Call, debuggers []string) int {
	if hasPrefix(idOf(call), debuggers) {
		return 0
	}
	return 1
}

// runs returns the longest parts of calls that are all of a sort.
func runs(calls []Call, of func(Call) bool) iter.Seq[[]Call] {
	return func(yield func([]Call) bool) {
		for from := 0; from < len(calls); from++ {
			to := from
			for to < len(calls) && of(calls[to]) {
				to++
			}
			if to > from && !yield(calls[from:to]) {
				return
			}
			from = max(from, to)
		}
	}
}

func idOf(call Call) string {
	request, _ := call.Request.(map[string]any)
	return fmt.Sprint(request["containerId"])
}

package contention

import (
	"encoding/json"
	"hash/maphash"
	"strings"

	"github.com/garboard/garboard/libs/client"
)

// contentOf returns a hash of what a call writes. Times, messages and what the API sets do not count, so that a
// condition which is written again has the same content, even if it names another pod that could not be created.
func contentOf(seed maphash.Seed, call client.Call) uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	text := call.Patch
	if call.Body != nil {
		var err error
		if text, err = json.Marshal(call.Body); err != nil {
			return hash.Sum64()
		}
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		_, _ = hash.Write(text)
		return hash.Sum64()
	}
	if object, ok := value.(map[string]any); ok && call.Body != nil {
		// An update of the status writes nothing else, and one of the object does not write the status.
		status := object["status"]
		delete(object, "status")
		if call.Subresource == "status" {
			value = status
		}
	}
	strip(value)
	// Maps are marshalled in the order of their keys.
	if text, err := json.Marshal(value); err == nil {
		_, _ = hash.Write(text)
	}
	return hash.Sum64()
}

// strip removes times, messages, revisions and the record of managers.
func strip(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			switch {
			case name == "resourceVersion", name == "managedFields", name == "generation", name == "observedGeneration",
				name == "message", strings.HasSuffix(name, "Time"), strings.HasSuffix(name, "Timestamp"):
				delete(value, name)
			default:
				strip(field)
			}
		}
	case []any:
		for _, field := range value {
			strip(field)
		}
	}
}

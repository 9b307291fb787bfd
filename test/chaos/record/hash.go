package record

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/garboard/garboard/libs/scheme"
)

// HashOf returns a hash of an object's whole content, including its resourceVersion.
func HashOf(obj scheme.Object) (uint64, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return 0, fmt.Errorf("hashing %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64(), nil
}

package custom

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/jsonpath"

	"github.com/garboard/garboard/libs/scheme"
)

// selectable returns the fields by which lists can select a version's objects, and a function that reads
// them from an object. A field that an object does not have is empty.
func selectable(of []apiextensionsv1.SelectableField) (labels []string, values func(scheme.Object) fields.Set, err error) {
	if len(of) == 0 {
		return nil, nil, nil
	}
	paths := make([]*jsonpath.JSONPath, len(of))
	for i, one := range of {
		paths[i] = jsonpath.New("selectableField").AllowMissingKeys(true)
		if err := paths[i].Parse("{" + one.JSONPath + "}"); err != nil {
			return nil, nil, fmt.Errorf("reading the path of a selectable field: %w", err)
		}
		labels = append(labels, strings.TrimPrefix(one.JSONPath, "."))
	}
	return labels, func(obj scheme.Object) fields.Set {
		set := fields.Set{}
		for i, path := range paths {
			set[labels[i]] = text(path, content(obj).Object)
		}
		return set
	}, nil
}

func text(path *jsonpath.JSONPath, of map[string]any) string {
	results, err := path.FindResults(of)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return ""
	}
	value := results[0][0].Interface()
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

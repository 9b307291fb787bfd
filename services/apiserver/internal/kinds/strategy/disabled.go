package strategy

import (
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
)

// withoutDisabled makes a strategy drop the fields of Kubernetes' features that are disabled by
// default, before it sees the object. An update keeps a field that the old object has.
func withoutDisabled(s *kinds.Definition) {
	create, update := s.PrepareForCreate, s.Update.Prepare
	s.PrepareForCreate = func(obj scheme.Object) {
		defaults.DropDisabled(obj, nil)
		if create != nil {
			create(obj)
		}
	}
	s.Update.Prepare = func(obj, old scheme.Object) {
		defaults.DropDisabled(obj, old)
		if update != nil {
			update(obj, old)
		}
	}
}

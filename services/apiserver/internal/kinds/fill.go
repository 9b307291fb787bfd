package kinds

func Fill[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}

func FillString[T ~string](to *T, value T) {
	if *to == "" {
		*to = value
	}
}

func FillNumber(to *int32, value int32) {
	if *to == 0 {
		*to = value
	}
}

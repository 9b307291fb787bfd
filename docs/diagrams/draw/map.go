package main

import "strings"

// box is a rectangle with text.
type box struct {
	left, top, width, height float64
}

func drawMap(width, height float64, statements []statement) (*picture, error) {
	p := &picture{width: width, height: height}
	boxes := map[string]box{}
	for _, s := range statements {
		var err error
		switch s.verb {
		case "box":
			err = mapBox(p, boxes, s)
		case "arrow":
			err = mapArrow(p, boxes, s)
		default:
			err = s.errorf("want box or arrow")
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func mapBox(p *picture, boxes map[string]box, s statement) error {
	if len(s.words) != 6 || len(s.texts) == 0 {
		return s.errorf("want ID LEFT TOP WIDTH HEIGHT KIND | TEXT")
	}
	n, err := s.numbers(s.words[1:5])
	if err != nil {
		return err
	}
	kind, err := s.kind(s.words[5])
	if err != nil {
		return err
	}
	id, b := s.words[0], box{n[0], n[1], n[2], n[3]}
	if _, twice := boxes[id]; twice {
		return s.errorf("%s is placed twice", id)
	}
	if b.left+b.width > p.width || b.top+b.height > p.height {
		return s.errorf("%s is outside the map", id)
	}
	boxes[id] = b
	return p.box(s, b, kind)
}

func mapArrow(p *picture, boxes map[string]box, s statement) error {
	if (len(s.words) != 3 && len(s.words) != 5) || (s.words[1] != "-" && s.words[1] != "--") {
		return s.errorf("want ID:SIDE - ID:SIDE [via N]")
	}
	from, err := endOf(boxes, s, s.words[0])
	if err != nil {
		return err
	}
	to, err := endOf(boxes, s, s.words[2])
	if err != nil {
		return err
	}
	via := -1.0
	if len(s.words) == 5 {
		n, err := s.numbers(s.words[4:])
		if err != nil || s.words[3] != "via" {
			return s.errorf("want via N")
		}
		via = n[0]
	}
	p.arrow(route(from, to, via), s.words[1] == "--")
	p.label(route(from, to, via), s.texts)
	return nil
}

// end is where an arrow begins or ends.
type end struct {
	point
	upright bool // its side is the top or the bottom
}

// endOf reads ID:SIDE[@OFFSET].
func endOf(boxes map[string]box, s statement, word string) (end, error) {
	id, side, _ := strings.Cut(word, ":")
	side, offset, given := strings.Cut(side, "@")
	b, ok := boxes[id]
	if !ok {
		return end{}, s.errorf("no box %q stands above this line", id)
	}
	x, y := b.left+b.width/2, b.top+b.height/2
	if given {
		n, err := s.numbers([]string{offset})
		if err != nil {
			return end{}, err
		}
		x, y = b.left+n[0], b.top+n[0]
	}
	switch side {
	case "left":
		return end{point{b.left, y}, false}, nil
	case "right":
		return end{point{b.left + b.width, y}, false}, nil
	case "top":
		return end{point{x, b.top}, true}, nil
	case "bottom":
		return end{point{x, b.top + b.height}, true}, nil
	}
	return end{}, s.errorf("%q is none of left, right, top, bottom", side)
}

// route returns the points of a line along the grid. Its middle section, if it has one, runs at via,
// or halfway if via is negative.
func route(from, to end, via float64) []point {
	a, b := from.point, to.point
	switch {
	case a.x == b.x || a.y == b.y:
		return []point{a, b}
	case from.upright && !to.upright:
		return []point{a, {a.x, b.y}, b}
	case !from.upright && to.upright:
		return []point{a, {b.x, a.y}, b}
	case from.upright:
		if via < 0 {
			via = (a.y + b.y) / 2
		}
		return []point{a, {a.x, via}, {b.x, via}, b}
	default:
		if via < 0 {
			via = (a.x + b.x) / 2
		}
		return []point{a, {via, a.y}, {via, b.y}, b}
	}
}

/** The entry of the grid of heads. */

import { adapter } from "./adapter";
import { createHeads } from "./heads-grid";

export default adapter(createHeads);

#include "core/engine.h"
#include "core/error.h"

enum { MOST_MORE = 8 };

static const loom__engine *more[MOST_MORE];
static int more_count;

static const loom__engine *engine_at(int index)
{
    for (int i = 0; loom__own_engines[i] != NULL; i++, index--)
        if (index == 0)
            return loom__own_engines[i];
    return index < more_count ? more[index] : NULL;
}

/* The first engine with this id that implements one of `types`; with `any_width`, not only for 4 and 8 bytes. */
static const loom__engine *find(uint32_t types, uint32_t id, int any_width)
{
    const loom__engine *engine;
    for (int i = 0; (engine = engine_at(i)) != NULL; i++)
        if ((id == LOOM_ENGINE_DEFAULT || id == (uint32_t)engine->id) && engine->types & types &&
            (!any_width || engine->check_widths != NULL))
            break;
    return engine;
}

const loom__engine *loom__engine_of(loom_type type, uint32_t id)
{
    return find(1u << type, id, 0);
}

const loom__engine *loom__engine_of_widths(loom_type type)
{
    return find(1u << type, LOOM_ENGINE_DEFAULT, 1);
}

loom_status loom__engine_refuses_views(const loom__engine *engine)
{
    return loom__fail(
        LOOM_UNSUPPORTED, "%s",
        engine->view_refusal != NULL
            ? engine->view_refusal
            : "kernels may only look keys up in this table (LOOM_VIEW_FIND): what is stored moves when more comes; "
              "write with the bulk calls, or use another engine");
}

uint32_t loom__engine_layout_of(const loom__engine *engine, const loom__description *is)
{
    return engine->layout_of != NULL ? engine->layout_of(is) : engine->layout_version;
}

double loom__engine_largest_load(const loom__engine *engine)
{
    return engine->largest_load > 0 ? engine->largest_load : LOOM__LARGEST_LOAD;
}

int loom__engine_is_known(uint32_t id)
{
    return find(UINT32_MAX, id, 0) != NULL;
}

int loom__engine_register(const loom__engine *engine)
{
    if (more_count == MOST_MORE || loom__engine_is_known(engine->id)) /* LOOM_ENGINE_DEFAULT is known, too */
        return 0;
    more[more_count++] = engine;
    return 1;
}
